// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"fmt"
	"syscall"
)

// leastOpenFiles is how many files each program of a cluster must be allowed to have open. Below that, etcd or the API
// server fails at some moment, and their logs do not say why.
const leastOpenFiles = 256

// OpenFilesError says that the limit of open files is too low for a cluster, and what to do.
type OpenFilesError struct {
	// Limit is how many files a program may have open.
	Limit uint64
}

func (e *OpenFilesError) Error() string {
	return fmt.Sprintf("the system allows a program %d open files, and a cluster needs %d: raise the hard limit (`ulimit -n 4096` as root, nofile in "+
		"/etc/security/limits.conf, LimitNOFILE= of a systemd service, or --ulimit of a container), or use a shell in which nobody has lowered it",
		e.Limit, leastOpenFiles)
}

// enoughOpenFiles is an *OpenFilesError where the limit of open files is too low for a cluster.
func enoughOpenFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	// Programs in Go raise their own limit as far as they may.
	if limit.Max >= leastOpenFiles {
		return nil
	}
	return &OpenFilesError{Limit: limit.Max}
}
