// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package egress

import (
	"fmt"
	"net"
)

// nameLimit is how many bytes the name of a Unix socket may have on the systems that allow the least.
const nameLimit = 103

// listen makes a Unix socket.
func listen(socket string) (net.Listener, error) {
	if len(socket) > nameLimit {
		return nil, fmt.Errorf("the path is longer than %d bytes, and this system allows no more: move to a folder that lies less deep", nameLimit)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	// By the time it is closed the name may be another file's.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}
