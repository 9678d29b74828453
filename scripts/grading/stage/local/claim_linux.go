// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// claimName returns the name of an abstract Unix socket. It has the same scope as the port: all users of this machine
// share it, whatever their folder for temporary files, but a container with its own network does not.
func claimName(port int) string { return fmt.Sprintf("@operator-labs-port-%d", port) }

// tryClaim claims a port. If another process has claimed it, the error is errClaimed.
func tryClaim(port int) (*claim, error) {
	listener, err := net.Listen("unix", claimName(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errClaimed
	}
	if err != nil {
		return nil, fmt.Errorf("claiming port %d: %w", port, err)
	}
	return &claim{port: port, Close: func() { listener.Close() }}, nil
}

// claimant returns the process that has claimed a port as text, if this process can see it.
func claimant(port int) string {
	connection, err := net.Dial("unix", claimName(port))
	if err != nil {
		return ""
	}
	defer connection.Close()
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	var peer *syscall.Ucred
	if controlErr := raw.Control(func(descriptor uintptr) {
		peer, err = syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil || err != nil || peer.Pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (by process %d)", peer.Pid)
}
