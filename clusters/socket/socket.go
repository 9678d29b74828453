// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package socket

import (
	"context"
	"fmt"
	"net"
)

// Listen creates a Unix socket, which must not exist. Its file stays when the listener is closed, because the name may
// belong to another file by then.
func Listen(path string) (net.Listener, error) {
	name, release, err := shorten(path)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	defer release()
	listener, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}

// Dial connects to a Unix socket.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	name, release, err := shorten(path)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	defer release()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	return connection, nil
}
