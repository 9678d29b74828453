// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tests of package process cover programs that make removal difficult.
func TestRemoveIgnoresMissingFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "closed", "deep"), 0o755),
		os.Chmod(filepath.Join(dir, "closed"), 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := All(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
}

func TestLeftoversOfKilledProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gone := exec.CommandContext(t.Context(), "true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	ours, err := os.MkdirTemp(dir, Temporary(".new-")) //nolint:usetesting // its name is what is tested
	if err != nil {
		t.Fatal(err)
	}
	left := strings.Replace(filepath.Base(ours), fmt.Sprint(os.Getpid()), fmt.Sprint(gone.Process.Pid), 1)
	keep := []string{
		filepath.Base(ours), left + "x", "x" + left, strings.Replace(left, ".new-", ".old-", 1),
		".new-1234567", ".new-0-1", ".new--1-1",
	}
	for _, name := range append(keep, left) {
		if err := os.MkdirAll(filepath.Join(dir, name, "closed"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, left, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	Abandoned(dir, ".new-")
	var found []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	slices.Sort(keep)
	if !slices.Equal(found, keep) {
		t.Errorf("entries = %q, want %q", found, keep)
	}
}
