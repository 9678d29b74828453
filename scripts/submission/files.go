// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// fileLimit is the largest file of a submission that we read, in bytes: those are written by hand, or made from what is.
	fileLimit = 1 << 20
	// sourceLimit is the largest Go file that the compiler and controller-gen get to read, in bytes. Generated ones are long.
	sourceLimit = 16 << 20
)

// FileError says that a file of a submission is none that is read: it is no regular file, too large, or outside the folder.
type FileError struct {
	// Path is slash-separated, from the submission's folder.
	Path string
	// What it is instead: "a named pipe".
	What string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s must be a regular file of the submission's folder, of at most %d MB, and is %s", e.Path, fileLimit>>20, e.What)
}

// ReadFile reads a file of the submission. It is the only way by which we read one: a link that leads out of the folder, a
// device, a pipe or a file of more than 1 MB is a *FileError, and is not read. The path is slash-separated, from the folder.
func (s *Submission) ReadFile(name string) ([]byte, error) {
	file, err := s.open(name, fileLimit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, fileLimit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(content) > fileLimit { // it has grown
		return nil, &FileError{name, "larger than that"}
	}
	return content, nil
}

// open opens a regular file of at most so many bytes.
func (s *Submission) open(name string, limit int64) (*os.File, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	file, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(name, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = regular(name, info, limit)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// fileError tells a link that leads out of the folder from files that can't be opened for other reasons.
func fileError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("opening a file of the submission: %w", err)
	case errors.Is(err, syscall.ENXIO):
		return &FileError{name, "a socket"}
	case errors.Is(err, syscall.ELOOP):
		return &FileError{name, "a link that leads to itself"}
	case !filepath.IsLocal(filepath.FromSlash(name)), strings.Contains(err.Error(), "path escapes"): // package os has no name for this error
		return &FileError{name, "outside of the submission's folder"}
	}
	return fmt.Errorf("opening a file of the submission: %w", err)
}

func regular(name string, info fs.FileInfo, limit int64) error {
	mode := info.Mode()
	switch {
	case mode.IsRegular() && info.Size() <= limit:
		return nil
	case mode.IsRegular():
		return &FileError{name, "larger than that"}
	case mode.IsDir():
		return &FileError{name, "a folder"}
	case mode&fs.ModeNamedPipe != 0:
		return &FileError{name, "a named pipe"}
	case mode&fs.ModeDevice != 0:
		return &FileError{name, "a device"}
	case mode&fs.ModeSocket != 0:
		return &FileError{name, "a socket"}
	}
	return &FileError{name, "no regular file"}
}

// copyFolder copies the regular files below a folder of the submission to a folder of ours.
func (s *Submission) copyFolder(from, to string) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copying %s: %w", from, err)
		}
		target := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, from)))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := s.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
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
		// Glob asks what a link leads to, and passes over one that leads nowhere good.
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

// sources are the folders of the module's packages and their Go files, slash-separated from the submission's folder: what
// `./...` means to the go command. A module below this one is another, and not looked at.
type sources map[string][]string

// folders are those in which there are Go files, in the order of their names.
func (s sources) folders() []string {
	var all []string
	for folder := range s {
		all = append(all, folder)
	}
	slices.Sort(all)
	return all
}

// survey finds the module's sources. Compiler and controller-gen would wait for a pipe, and read a device to its end, so
// a source that is no regular file is a *FileError.
func (s *Submission) survey() (sources, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	found := sources{}
	if info, err := root.Stat("go.sum"); err == nil {
		if err := regular("go.sum", info, sourceLimit); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError("go.sum", err)
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry != nil && entry.IsDir() && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir // the go command passes over it, too
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (ignored(entry.Name()) || isModule(root, name)):
			return fs.SkipDir
		case entry.IsDir() || !isSource(entry.Name()):
			return nil
		}
		info, err := root.Stat(filepath.FromSlash(name)) // of what a link leads to
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a link that leads nowhere is for the compiler to name
		}
		if err != nil {
			return fileError(name, err)
		}
		if info.IsDir() {
			return nil
		}
		if err := regular(name, info, sourceLimit); err != nil {
			return err
		}
		if path.Ext(name) == ".go" {
			found[path.Dir(name)] = append(found[path.Dir(name)], name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ignored are folders in which the go command looks for no packages (`go help packages`).
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor"
}

func isModule(root *os.Root, dir string) bool {
	_, err := root.Lstat(filepath.Join(filepath.FromSlash(dir), "go.mod"))
	return err == nil
}

// isSource tells what a compiler of Go programs reads. (`go help packages`)
func isSource(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".s", ".S", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".m", ".f", ".F", ".for", ".f90", ".syso", ".swig", ".swigcxx":
		return true
	}
	return false
}
