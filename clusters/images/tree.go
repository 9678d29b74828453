// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Epoch is the time of every file in an image, so that a build from the same sources produces the same image.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// tree is the files of a layer, by path without a leading slash.
type tree map[string]entry

type entry struct {
	mode    fs.FileMode // of type: a folder, a link or a file
	link    string
	content []byte
	source  string // a file of this machine with the content; "" means content
	write   func(io.Writer) error
	size    int64 // what write writes
}

func (t tree) add(name string, e entry) error {
	name = strings.TrimPrefix(name, "/")
	if old, found := t[name]; found && (!old.mode.IsDir() || !e.mode.IsDir()) {
		return fmt.Errorf("/%s is in the layer twice", name)
	}
	t[name] = e
	return nil
}

// complete adds the parent folders of all entries. Docker would create them itself, but only root could enter them.
func (t tree) complete() {
	for _, name := range slices.Collect(maps.Keys(t)) {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, found := t[parent]; !found {
				t[parent] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
}

// write writes the tree as a tar archive: sorted, owned by root, at the epoch.
func (t tree) write(w io.Writer) error {
	t.complete()
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if err := t[name].writeTo(archive, name); err != nil {
			return fmt.Errorf("packing /%s: %w", name, err)
		}
	}
	return archive.Close()
}

func (e entry) writeTo(archive *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: int64(e.mode.Perm() | e.mode&0o7000), ModTime: Epoch}
	switch {
	case e.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case e.mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.link, 0o777
		return archive.WriteHeader(header)
	}
	header.Typeflag = tar.TypeReg
	switch {
	case e.write != nil:
		header.Size = e.size
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		return e.write(archive)
	case e.source == "":
		header.Size = int64(len(e.content))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(e.content)
		return err
	}
	file, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
