// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"lva.io/operators/scripts/grading/limited"
)

// maxFiles is how many Go files of a folder are read at most. A lab has fewer than 100.
const maxFiles = 2000

// Folder reads the Go files of an untrusted folder. It follows no links and reads at most 2,000 files and 4 MiB. It
// leaves out files beyond these limits, and folders without code of the student (.git and others that begin with a dot,
// vendor, node_modules). A folder that can't be opened is an error.
func Folder(name, dir string) (d Document, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Document{}, fmt.Errorf("reading the code of %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	d = Document{Name: name, Files: map[string][]byte{}}
	left := int64(maxBytes)
	err = fs.WalkDir(root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && file == ".":
			return err
		case err != nil:
			return nil //nolint:nilerr // a folder that can't be read has no code to compare
		case entry.IsDir():
			if base := path.Base(file); file != "." && (base[0] == '.' || base == "vendor" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || path.Ext(file) != ".go":
			return nil
		case len(d.Files) == maxFiles || left == 0:
			return fs.SkipAll
		}
		content, err := readFile(dir, file, left)
		if err != nil {
			return nil //nolint:nilerr // nor has a file
		}
		left -= int64(len(content))
		d.Files[file] = content
		return nil
	})
	if err != nil {
		return Document{}, fmt.Errorf("reading the code of %s: %w", name, err)
	}
	return d, nil
}

// readFile reads at most so many bytes of a file, regardless of its size.
func readFile(dir, name string, most int64) ([]byte, error) {
	file, err := limited.Open(dir, name, anySize)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// anySize is larger than any file system.
const anySize = 1 << 60
