// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const tarUsage = "usage: tar cf - PATH… | tar xf - [-C FOLDER], as kubectl cp calls it"

// runTar implements as much of tar as `kubectl cp` needs in a container: it writes an archive to standard output, or
// reads one from standard input.
func runTar(args []string, in io.Reader, out io.Writer) error {
	var create, extract, piped bool
	folder := "."
	var paths []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-C" && i+1 < len(args):
			i++
			folder = args[i]
		case arg == "-":
			piped = true
		case strings.HasPrefix(arg, "--"): // owners and modes: the user who runs this owns the files in any case
		case i == 0 || strings.HasPrefix(arg, "-") && len(paths) == 0:
			create = create || strings.Contains(arg, "c")
			extract = extract || strings.Contains(arg, "x")
		default:
			paths = append(paths, arg)
		}
	}
	switch {
	case create && piped && !extract && len(paths) > 0:
		return pack(folder, paths, out)
	case extract && piped && !create && len(paths) == 0:
		return unpack(folder, in)
	}
	return errors.New(tarUsage)
}

// pack writes files, and folders with all that is in them. Their names are relative.
func pack(folder string, paths []string, out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		if err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return packOne(archive, name)
		}); err != nil {
			return err
		}
	}
	return archive.Close()
}

func packOne(archive *tar.Writer, name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(name); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = strings.TrimPrefix(filepath.ToSlash(name), "/")
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.CopyN(archive, file, info.Size()) // a file that grows meanwhile keeps its earlier size
	return err
}

// unpack creates files and folders below a folder, and nowhere else.
func unpack(folder string, in io.Reader) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		name := filepath.Clean(header.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch mode := header.FileInfo().Mode(); header.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(header.Linkname, name)
		case tar.TypeReg:
			err = unpackFile(root, name, mode.Perm(), archive)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder nor a link", header.Name)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
