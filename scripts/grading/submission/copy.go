// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lva.io/operators/scripts/grading/limited"
)

// Limits of what is copied. A lab has fewer than 100 files, and 200 kB.
const (
	copyFiles = 5000
	copyBytes = 64 << 20
)

// Copy copies the module to a folder, which it creates. It copies the regular files of its packages and tests, and the
// files beside them that tests read, such as config/crd. It leaves out what the go command ignores (names that begin
// with a dot or an underscore, vendor, modules below this one), links to folders, and files other than sources that are
// larger than 1 MB or not regular files. For a source that is not a regular file it returns a *FileError. More than
// 5000 files and folders, or 64 MB, are an error, too.
func (s *Submission) Copy(to string) error {
	copies := limited.Copies{Files: copyFiles, Bytes: copyBytes}
	return s.walk(".", func(root *os.Root, name string, entry fs.DirEntry) error {
		switch {
		case entry.IsDir() && name != "." && entry.Name() != "testdata" && (ignored(entry.Name()) || isModule(root, name)):
			return fs.SkipDir
		case entry.IsDir():
			return copies.Folder(filepath.Join(to, filepath.FromSlash(name)))
		case strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		limit := int64(fileLimit)
		source := IsSource(entry.Name()) || name == "go.mod" || name == "go.sum"
		if source {
			limit = sourceLimit
		}
		err := copies.Copy(s.Dir, name, filepath.Join(to, filepath.FromSlash(name)), limit)
		if _, tooMuch := errors.AsType[*limited.TooMuchError](err); tooMuch {
			return err
		}
		if _, wrong := errors.AsType[*FileError](err); wrong ||
			errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			if source {
				return err
			}
			return nil // no test can rely on it
		}
		return environmentError(err)
	})
}

// Packages returns the folders of the module's packages, slash-separated and relative to its root, with their Go files,
// including tests.
func (s *Submission) Packages() map[string][]string { return s.sources }
