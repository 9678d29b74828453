// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package egress

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// listen makes a Unix socket. Its name may have 108 bytes in a system call, and a checkout may lie deep: the folder is
// named by its descriptor.
func listen(socket string) (net.Listener, error) {
	folder, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	listener, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(socket)))
	if err != nil {
		return nil, err
	}
	// By the time it is closed the name may be another file's.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}
