// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package removal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What programs do to stay is tried in package process.
func TestAFolderIsRemovedAndNoneIsNoError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "closed", "deep"), 0o755), os.Chmod(filepath.Join(dir, "closed"), 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := All(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
