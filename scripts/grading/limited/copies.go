// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Copies copies files within a limit for their number and for their total size.
type Copies struct {
	// Files is the largest number of files and folders, and Bytes the largest total size of the files.
	Files int
	Bytes int64

	files int
	size  int64
}

// TooMuchError is the error for too many files and folders, or too many bytes in them.
type TooMuchError struct {
	Files int
	Bytes int64
}

func (e *TooMuchError) Error() string {
	return fmt.Sprintf("the submission has more than %d files and folders, or %d MB: "+
		"remove what does not belong to it", e.Files, e.Bytes>>20)
}

// Folder creates a folder of the copy, and the folders above it. The error may be a *TooMuchError.
func (c *Copies) Folder(to string) error {
	if err := c.count(); err != nil {
		return err
	}
	return os.MkdirAll(to, 0o700)
}

func (c *Copies) count() error {
	if c.files++; c.files > c.Files {
		return &TooMuchError{c.Files, c.Bytes}
	}
	return nil
}

// Copy copies a file of a folder, of at most limit bytes, to a file that must not exist. The errors are those of Open,
// and a *TooMuchError.
func (c *Copies) Copy(dir, name, target string, limit int64) (err error) {
	source, err := Open(dir, name, limit)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := c.count(); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	left := c.Bytes - c.size
	n, err := io.Copy(file, io.LimitReader(source, left+1))
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	if c.size += n; n > left {
		return &TooMuchError{c.Files, c.Bytes}
	}
	return nil
}
