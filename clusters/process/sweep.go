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

// sweep ends and removes the scopes below root whose owner is dead. A guard may do the same at the same time, which
// does no harm.
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
			// Its creator died within the millisecond before it was renamed, or is just creating it.
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = removeAll(dir)
			}
		}
	}
	return nil
}

// abandoned reports whether no process holds the lock of a run folder. If a folder's mode forbids a look, the program's
// change of the mode is undone first.
func abandoned(dir string) bool {
	lock, err := openFolder(dir)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(dir, 0o700) == nil {
		lock, err = openFolder(dir)
	}
	if err != nil {
		// Another process is removing it, or it is no folder, so a run can't have created it.
		return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// openFolder opens a folder, but not a link to one.
func openFolder(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}
