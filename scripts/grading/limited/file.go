// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// FileError is the error for a file that can't be read because it is not a regular file, is too large, or is outside
// the folder.
type FileError struct {
	// Path is slash-separated and relative to the folder.
	Path string
	// What describes what it is instead: "a named pipe".
	What string
	// Limit is the largest size that it may have, in bytes.
	Limit int64
	// TooLarge is true for a regular file that is larger than the limit.
	TooLarge bool
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s must be a regular file of the submission's folder, "+
		"of at most %d MB, but is %s", e.Path, e.Limit>>20, e.What)
}

// ReadFile reads a regular file of at most limit bytes. The name is slash-separated and relative to the folder. For
// any other file, and for a link to a target outside the folder, it reads nothing and returns a *FileError.
func ReadFile(dir, name string, limit int64) ([]byte, error) {
	file, err := Open(dir, name, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return content, nil
}

// Open opens a file that ReadFile would read. If the file has grown by the time it is read, reading past the limit
// returns a *FileError.
func Open(dir, name string, limit int64) (fs.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	opened, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(name, limit, err)
	}
	info, err := opened.Stat()
	if err == nil {
		err = regular(name, info, limit)
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	return &file{opened, name, Reader(opened, limit)}, nil
}

// Check returns an error of Open unless there is a regular file of at most limit bytes.
func Check(root *os.Root, name string, limit int64) error {
	info, err := root.Stat(filepath.FromSlash(name)) // of the target of a link
	if err != nil {
		return fileError(name, limit, err)
	}
	return regular(name, info, limit)
}

// file is an open file that can be read up to its limit.
type file struct {
	*os.File
	name    string
	content io.Reader
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.content.Read(p)
	if long, ok := errors.AsType[*LongError](err); ok { // the file has grown
		return n, tooLarge(f.name, long.Limit)
	}
	return n, err
}

// WriteTo hides the method of os.File, which has no limit.
func (f *file) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{f}) }

func tooLarge(name string, limit int64) *FileError {
	return &FileError{Path: name, What: "larger than that", Limit: limit, TooLarge: true}
}

// fileError distinguishes a link out of the folder from files that can't be opened for other reasons.
func fileError(name string, limit int64, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("opening a file of the submission: %w", err)
	case errors.Is(err, syscall.ENXIO):
		return &FileError{Path: name, What: "a socket", Limit: limit}
	case errors.Is(err, syscall.ELOOP):
		return &FileError{Path: name, What: "a symbolic link to itself", Limit: limit}
	// Package os has no name for this error.
	case !filepath.IsLocal(filepath.FromSlash(name)), strings.Contains(err.Error(), "path escapes"):
		return &FileError{Path: name, What: "outside of the submission's folder", Limit: limit}
	}
	return fmt.Errorf("opening a file of the submission: %w", err)
}

func regular(name string, info fs.FileInfo, limit int64) error {
	switch mode := info.Mode(); {
	case mode.IsRegular() && info.Size() <= limit:
		return nil
	case mode.IsRegular():
		return tooLarge(name, limit)
	default:
		return &FileError{Path: name, What: Kind(mode), Limit: limit}
	}
}

// Kind names the kind of a file that is not a regular file: "a named pipe".
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "not a regular file"
}
