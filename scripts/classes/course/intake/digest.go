// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lva.io/operators/scripts/grading/limited"
)

// digest returns the SHA-256 over the names and contents of a module's files, in the order of their names. It leaves
// out files that are not the student's work. It returns an error for anything that can't be graded: links that point
// out of the submission (root is its folder), devices, and too many or too large files.
func digest(ctx context.Context, root, dir string, limits Limits) (string, error) {
	base, err := filepath.Rel(root, dir)
	if err != nil {
		return "", err
	}
	base = filepath.ToSlash(base)
	opened, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("opening the submission: %w", err)
	}
	defer opened.Close()
	sum, files, left := sha256.New(), 0, limits.Bytes
	frame := func(text string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		sum.Write(size[:])
		sum.Write([]byte(text))
	}
	err = fs.WalkDir(opened.FS(), base, func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("reading the submission: %w", err)
		}
		inModule := strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
		if base == "." {
			inModule = name
		}
		if name == base {
			return nil
		}
		if isJunk(path.Base(name)) || inModule == "bin" {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > limits.Files {
			return problemf("there are more than %d files and folders in it: remove what does not belong to it", limits.Files)
		}
		switch kind := entry.Type(); {
		case kind.IsDir():
			return nil
		case kind&fs.ModeSymlink != 0:
			if err := checkLink(opened, name, inModule); err != nil {
				return err
			}
			target, err := opened.Readlink(filepath.FromSlash(name))
			if err != nil {
				return fmt.Errorf("reading the link %s: %w", inModule, err)
			}
			frame("link")
			frame(inModule)
			frame(target)
			return nil
		case !kind.IsRegular():
			return problemf("%s is %s: remove it", inModule, limited.Kind(kind))
		}
		n, content, err := fileSum(root, name, min(limits.File, left))
		if long, ok := errors.AsType[*limited.FileError](err); ok && long.TooLarge {
			return problemf("its files are too large, with %s: at most %d MB together and %d MB each are read. "+
				"Remove what does not belong to it",
				inModule, limits.Bytes>>20, limits.File>>20)
		}
		if err != nil {
			return err
		}
		left -= n
		frame("file")
		frame(inModule)
		frame(content)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// fileSum returns the size and the checksum of a file.
func fileSum(root, name string, limit int64) (int64, string, error) {
	file, err := limited.Open(root, name, limit)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	return n, string(sum.Sum(nil)), err
}

// checkLink refuses a link that points outside the submission. A dangling link is harmless.
func checkLink(root *os.Root, name, shown string) error {
	_, err := root.Stat(filepath.FromSlash(name))
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil
	case strings.Contains(err.Error(), "path escapes"): // package os has no name for this error
		return problemf("%s is a link that points outside the submission: replace it with the file", shown)
	}
	return problemf("%s is a link that can't be followed: replace it with the file", shown)
}
