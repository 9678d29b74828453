// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/limited"
)

const (
	// fileLimit is the maximum size of a file of a submission that the grader reads, in bytes. Such files are written by
	// hand, or generated from such files.
	fileLimit = 1 << 20
	// sourceLimit is the maximum size of a Go file that the compiler and controller-gen read, in bytes. Generated files
	// are long.
	sourceLimit = 16 << 20
)

// FileError is the error for a file of a submission that is not read because it is not a regular file, is too large, or
// is outside the folder.
type FileError = limited.FileError

// ReadFile reads a file of the submission. No other function reads one. For a link to a place outside the folder, a
// device, a pipe or a file of more than 1 MB, it reads nothing and returns a *FileError. The name is slash-separated
// and relative to the folder.
func (s *Submission) ReadFile(name string) ([]byte, error) {
	return limited.ReadFile(s.Dir, name, fileLimit)
}

// walk visits a folder and the files and folders below it. It skips folders that can't be opened or whose name is not
// UTF-8.
func (s *Submission) walk(from string, visit func(root *os.Root, name string, entry fs.DirEntry) error) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), from, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry != nil && entry.IsDir() && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil:
			return fmt.Errorf("reading the submission's folder: %w", err)
		case entry.IsDir() && !utf8.ValidString(entry.Name()):
			return fs.SkipDir // it can't be a package, and package io/fs refuses to open it
		}
		return visit(root, name, entry)
	})
}

// glob lists the files that match a slash-separated pattern, in the order of their names.
func (s *Submission) glob(pattern string) ([]string, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	if !strings.ContainsAny(pattern, `*?[\`) {
		// Glob looks at the target of a link, and skips a link whose target is not usable.
		if _, err := root.Lstat(filepath.FromSlash(pattern)); err != nil {
			return nil, nil
		}
		return []string{pattern}, nil
	}
	return fs.Glob(root.FS(), pattern)
}

// readYAML reads the documents of all files that match a pattern.
func (s *Submission) readYAML(pattern string) ([]*unstructured.Unstructured, error) {
	files, err := s.glob(pattern)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		content, err := s.ReadFile(file)
		if err != nil {
			return nil, err
		}
		read, err := decodeYAML(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

// sources maps the folders of the module's packages to their Go files, slash-separated and relative to the submission's
// folder. These are the packages that `./...` means to the go command, without nested modules.
type sources map[string][]string

// folders returns the folders with Go files, in the order of their names.
func (s sources) folders() []string {
	var all []string
	for folder := range s {
		all = append(all, folder)
	}
	slices.Sort(all)
	return all
}

// survey finds the module's sources. Compiler and controller-gen would wait for a pipe, and read a device to its end,
// so survey returns a *FileError for a source that is not a regular file.
func (s *Submission) survey() (sources, error) {
	found := sources{}
	if err := s.walk(".", func(root *os.Root, name string, entry fs.DirEntry) error {
		switch {
		case name == ".":
			if err := limited.Check(root, "go.sum", sourceLimit); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		case entry.IsDir() && (ignored(entry.Name()) || isModule(root, name)):
			return fs.SkipDir
		case entry.IsDir() || !IsSource(entry.Name()):
			return nil
		}
		if info, err := root.Stat(filepath.FromSlash(name)); err == nil && info.IsDir() {
			return nil
		}
		if err := limited.Check(root, name, sourceLimit); errors.Is(err, fs.ErrNotExist) {
			return nil // the compiler reports a broken link
		} else if err != nil {
			return err
		}
		if path.Ext(name) == ".go" {
			found[path.Dir(name)] = append(found[path.Dir(name)], name)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return found, nil
}

// ignored reports whether the go command ignores a folder of this name (`go help packages`).
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor"
}

func isModule(root *os.Root, dir string) bool {
	_, err := root.Lstat(filepath.Join(filepath.FromSlash(dir), "go.mod"))
	return err == nil
}

// IsSource reports whether the go command compiles a file of this name. (`go help packages`)
func IsSource(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".s", ".S", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx",
		".m", ".f", ".F", ".for", ".f90", ".syso", ".swig", ".swigcxx":
		return true
	}
	return false
}
