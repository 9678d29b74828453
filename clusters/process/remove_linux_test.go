// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// freeze makes a file immutable (chattr +i), or mutable again.
func freeze(name string, frozen bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	flags := 0
	if frozen {
		flags = unix.STATX_ATTR_IMMUTABLE
	}
	return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func TestFailedRemovalIsReportedAndRetried(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	scope := newScope(t, Options{})
	file := filepath.Join(scope.Dir, "file")
	must(t, os.WriteFile(file, nil, 0o600), os.WriteFile(filepath.Join(scope.Dir, "other"), nil, 0o600))
	if err := freeze(file, true); err != nil {
		t.Skipf("only root can make a file immutable, and not on every file system: %v", err)
	}
	t.Cleanup(func() { _ = freeze(file, false) })
	err := scope.Close()
	leftover, ok := errors.AsType[*LeftoverError](err)
	if !ok || leftover.Dir != scope.Dir ||
		!strings.HasPrefix(err.Error(), "the run folder "+scope.Dir+" can't be removed "+
			"(removeat file: operation not permitted): the next run tries again") {
		t.Errorf("Close() error = %v", err)
	}
	if exists(filepath.Join(scope.Dir, "other")) {
		t.Error("a removable file still exists")
	}
	newScope(t, Options{})
	if !exists(file) {
		t.Fatal("the file was not immutable")
	}
	must(t, freeze(file, false))
	newScope(t, Options{})
	if exists(scope.Dir) {
		t.Error("the next scope did not remove the folder")
	}
}
