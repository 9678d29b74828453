// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/removal"
)

// Replace lets a run replace files of a folder of reports. If that fails, or the run failed before, none of the files
// exists afterwards. A submission runs as this user, and may have left files of its own, which must not be taken for
// those of the run.
func Replace(dir string, names []string, failed error, write func() error) error {
	err := failed
	if err == nil {
		err = Remove(dir, names...)
	}
	if err == nil {
		err = write()
	}
	if err == nil {
		return nil
	}
	if removeErr := Remove(dir, names...); removeErr != nil {
		return fmt.Errorf(
			"%w, and a file of an earlier run may be left, because it can't be removed: %w: remove it", err, removeErr,
		)
	}
	return err
}

// Remove removes files and folders from a folder of reports. A submission may have removed the permission, but it ran
// as this user, so this user can restore it.
func Remove(dir string, names ...string) error {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(dir, info.Mode().Perm()|0o700) // if the folder is another user's, removing fails with the reason
	}
	for _, name := range names {
		if err := removal.All(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing a file or folder at the report's path: %w", err)
		}
	}
	return nil
}

// Writable returns an error if reports can't be written into a folder. Otherwise the user would wait for a report in
// vain.
func Writable(dir string) error {
	const prefix = ".writable-"
	removal.Abandoned(dir, prefix)
	file, err := os.CreateTemp(dir, removal.Temporary(prefix))
	if err == nil {
		_, err = file.Write(make([]byte, 4096)) // on a full disk, creating an empty file succeeds
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	if err != nil {
		return fmt.Errorf("reports can't be written into %s: %w: free some space, or make the folder yours", dir, err)
	}
	return nil
}
