// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// ledgerFile returns the file with the last commit that passed the gate on this machine. All checkouts share it.
func ledgerFile() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder for the record of the gate: %w", err)
	}
	return filepath.Join(cache, "operator-labs", "gate"), nil
}

// Passed returns the last commit that passed the gate on this machine. It is empty if none is known.
func Passed() (commit string, err error) {
	name, err := ledgerFile()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading which commit passed the gate last: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// SetPassed records that a commit has passed the gate.
func SetPassed(commit string) error {
	name, err := ledgerFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("recording that the gate passed: %w", err)
	}
	return renameio.WriteFile(name, []byte(commit+"\n"), 0o644)
}
