// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"lva.io/operators/clusters/process"
)

// tryClaim claims a port unless somebody has: then the error is errClaimed. It sees what the same user does.
func tryClaim(port int) (*claim, error) {
	root, err := process.Root()
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(root, fmt.Sprintf("port-%d.lock", port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claiming port %d: %w", port, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errClaimed
		}
		return nil, fmt.Errorf("claiming port %d: %w", port, err)
	}
	return &claim{port: port, Closer: lock}, nil
}

// claimant would name the process that has claimed a port.
func claimant(int) string { return "" }
