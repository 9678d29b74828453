// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package openfiles checks whether a program may open as many files as a cluster needs. It changes no limit.
package openfiles

import (
	"fmt"
	"syscall"
)

// Least is how many files each program of a cluster must be allowed to have open. With a lower limit, etcd or the API
// server fails at some point, and their logs do not contain the reason.
const Least = 256

// Error reports that the limit of open files is too low for a cluster, and what to do.
type Error struct {
	// Limit is how many files a program may have open.
	Limit uint64
}

func (e *Error) Error() string {
	return fmt.Sprintf("the system allows a program %d open files, and a cluster needs %d: "+
		"raise the hard limit (`ulimit -n 4096` as root, nofile in /etc/security/limits.conf, "+
		"LimitNOFILE= of a systemd service, or --ulimit of a container), or use a shell in which it was not lowered",
		e.Limit, Least)
}

// Check returns an *Error if the limit of open files is too low for a cluster. Only the hard limit counts, because
// programs in Go raise their own limit to it.
func Check() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Max >= Least {
		return nil
	}
	return &Error{Limit: limit.Max}
}
