// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package local

import (
	"errors"
	"fmt"
	"path/filepath"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/process"
)

// tryClaim claims a port. If another process has claimed it, the error is errClaimed. It detects only claims of the
// same user.
func tryClaim(port int) (*claim, error) {
	root, err := process.Root()
	if err != nil {
		return nil, err
	}
	unlock, err := filelock.Try(filepath.Join(root, fmt.Sprintf("port-%d.lock", port)))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, errClaimed
	}
	if err != nil {
		return nil, fmt.Errorf("claiming port %d: %w", port, err)
	}
	return &claim{port: port, Close: unlock}, nil
}

// claimant returns an empty string, because the process that has claimed a port is not known.
func claimant(int) string { return "" }
