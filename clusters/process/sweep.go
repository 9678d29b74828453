// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// sweep ends and removes the scopes below root whose owner is dead. A guard may be at it, too: that does no harm.
func sweep(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("looking for abandoned runs: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "scope-"):
			if abandoned(dir) {
				killMarked(entry.Name())
				_ = removeAll(dir)
			}
		case strings.HasPrefix(entry.Name(), ".new-"):
			// Its maker died within the millisecond before it was renamed, or is just making it.
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = removeAll(dir)
			}
		}
	}
	return nil
}

// abandoned reports whether no process holds the lock of a run folder. If a folder's mode forbids a look, what a
// program did there is undone first.
func abandoned(dir string) bool {
	lock, err := openFolder(dir)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(dir, 0o700) == nil {
		lock, err = openFolder(dir)
	}
	if err != nil {
		// Somebody else is removing it; or it is none, so a run can't have made it.
		return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// openFolder opens a folder, and nothing that only leads to one.
func openFolder(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}
