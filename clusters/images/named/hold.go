// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package named

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/filelock"
)

// Hold is like Write, but the name lasts until release is called. Then it is removed, unless another process still
// holds it. The kernel releases it when the process ends, however that ends, and the next RemoveUnused removes the
// name. The lock is on the file of the name itself, so that no other file can be left behind.
func Hold(store string, image Image) (release func() error, err error) {
	name, err := Complete(image.Reference)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(store, folder, url.PathEscape(name))
	file, err := write(store, image, path)
	if err != nil {
		return nil, fmt.Errorf("holding the image %s: %w", name, err)
	}
	return func() error { return errors.Join(file.Close(), removeUnused(path)) }, nil
}

// write writes a name, and returns its file with a shared lock.
func write(store string, image Image, path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := Write(store, image); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := filelock.LockShared(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lock lets one process at a time check whether a name is held, and write or remove it. The lock is held only for a
// moment. It has a file of its own beside the names, because NFS locks only files that are open for writing.
func lock(dir string) (unlock func(), err error) {
	opened, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.LockExclusive(opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return func() { opened.Close() }, nil
}

// RemoveUnused removes the names of a repository's images ("operator-labs/graded") that no process holds.
func RemoveUnused(store, repository string) error {
	name, err := Complete(repository)
	if err != nil {
		return err
	}
	files, err := namesOf(store, strings.TrimSuffix(name, "latest"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := removeUnused(file); err != nil {
			return err
		}
	}
	return nil
}

func removeUnused(path string) error {
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("removing an unused image: %w", err)
	}
	defer unlock()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing an unused image: %w", err)
	}
	defer file.Close()
	err = filelock.TryLockExclusive(file)
	if errors.Is(err, filelock.ErrHeld) {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("removing an unused image: %w", err)
	}
	return nil
}
