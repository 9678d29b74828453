// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package removal removes folders with everything that programs have left in them, even against permissions and deep
// nesting. It also removes temporary files that killed commands have left beside their results (Abandoned). It does not
// know what is in a folder.
package removal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// All removes a folder with everything in it, including folders without permissions and trees of any depth. It does not
// follow links. It is no error if the folder does not exist.
func All(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return os.Remove(dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &remover{root: root, prefix: rand.Text()}
	for r.removed, r.failed = 1, nil; r.removed > 0; {
		r.removed, r.failed = 0, nil
		r.empty(".")
	}
	if r.failed != nil {
		return r.failed
	}
	return os.Remove(dir)
}

// remover removes what is in a folder. It moves folders up until they lie right below it. So it needs no stack, no long
// paths, and no more than three descriptors. os.RemoveAll would need them for a tree that is as deep as possible.
type remover struct {
	root   *os.Root
	prefix string // of the names of folders that were moved, which no program can know
	moved  int
	// removed counts the entries that were removed or moved, and failed is the first error, both since the last look.
	removed int
	failed  error
}

// empty removes the content of the root ("."), or moves up the content of a folder there.
func (r *remover) empty(dir string) {
	folder, err := r.root.Open(dir)
	if r.fails(err) {
		return
	}
	defer folder.Close()
	for {
		const some = 1024
		entries, err := folder.ReadDir(some)
		for _, entry := range entries {
			switch name := filepath.Join(dir, entry.Name()); {
			case !entry.IsDir():
				r.did(r.root.Remove(name))
			case r.fails(r.open(name)):
			case dir != ".":
				r.moved++
				r.did(r.root.Rename(name, fmt.Sprint(r.prefix, r.moved)))
			default:
				r.empty(name)
				r.did(r.root.Remove(name))
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.fails(err)
			}
			return
		}
	}
}

// open lets us list and change a folder.
func (r *remover) open(name string) error {
	info, err := r.root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o700 == 0o700 {
		return nil
	}
	return r.root.Chmod(name, 0o700)
}

func (r *remover) did(err error) {
	if err == nil {
		r.removed++
	}
	r.fails(err)
}

func (r *remover) fails(err error) bool {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if r.failed == nil {
		r.failed = err
	}
	return true
}
