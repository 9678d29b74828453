// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Limits of what Copy copies. A lab has fewer than 100 files, and 200 kB.
const (
	copyFiles = 5000
	copyBytes = 64 << 20
)

// Copy copies the module to a folder, which is made: the regular files that its packages and tests consist of, and those beside them
// that tests read, as config/crd. It leaves out what the go command does not look at (names that begin with a dot or an underscore,
// vendor, modules below this one), links to folders, and files besides sources that are larger than 1 MB or no regular files. A source
// that is no regular file is a *FileError, and more than 5000 files or 64 MB are an error.
func (s *Submission) Copy(to string) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	files, size := 0, int64(0)
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry != nil && entry.IsDir() && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil:
			return fmt.Errorf("copying the submission: %w", err)
		case entry.IsDir() && name != "." && entry.Name() != "testdata" && (ignored(entry.Name()) || isModule(root, name)):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, filepath.FromSlash(name)), 0o700)
		case strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		limit := int64(fileLimit)
		source := isSource(entry.Name()) || name == "go.mod" || name == "go.sum"
		if source {
			limit = sourceLimit
		}
		file, err := s.open(name, limit)
		if err != nil {
			if source {
				return err
			}
			return nil // no test can rely on it
		}
		defer file.Close()
		written, err := copyFile(file, filepath.Join(to, filepath.FromSlash(name)), limit)
		if err != nil {
			return hindrance(fmt.Errorf("copying %s: %w", name, err))
		}
		files, size = files+1, size+written
		if files > copyFiles || size > copyBytes {
			return fmt.Errorf("the submission has more than %d files or %d MB: remove what does not belong to it", copyFiles, copyBytes>>20)
		}
		return nil
	})
}

// copyFile copies no more than so many bytes: a file may grow meanwhile.
func copyFile(from io.Reader, to string, limit int64) (int64, error) {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, io.LimitReader(from, limit))
	return n, errors.Join(err, file.Close())
}

// Packages are the folders of the module's packages, slash-separated from its root, with their Go files, tests among them.
func (s *Submission) Packages() map[string][]string { return s.sources }
