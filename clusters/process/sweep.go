// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockName is the file in a run folder that its owner holds locked as long as it lives.
const lockName = "lock"

// sweep ends and removes the scopes below root whose owner is dead. A guard may be at it, too: that does no harm.
func sweep(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("looking for abandoned runs: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "run-"):
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

func abandoned(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		// Somebody is removing it; without its lock it is nobody's.
		return errors.Is(err, os.ErrNotExist)
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
