// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rootfs

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/images/named"
)

// unpackOnce unpacks a layer unless that was done before. The folder gets its name when it is complete, so that a kill
// never leaves an incomplete layer.
func (s *Store) unpackOnce(layer named.Blob) error {
	target := s.folder(layer)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	// Another node may be unpacking the same layer.
	lock, err := os.OpenFile(target+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := filelock.LockExclusive(lock); err != nil {
		return err
	}
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	blob, err := os.Open(layer.Path(s.Images))
	if err != nil {
		return fmt.Errorf("a layer is missing from the store; build the image again: %w", err)
	}
	defer blob.Close()
	unfinished := target + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	content := sha256.New()
	if err := unpack(io.TeeReader(bufio.NewReaderSize(blob, 1<<20), content), unfinished); err != nil {
		return errors.Join(explain(err), os.RemoveAll(unfinished))
	}
	if found := "sha256:" + hex.EncodeToString(content.Sum(nil)); found != layer.Digest {
		return errors.Join(fmt.Errorf("the layer %s is damaged in the store: remove %s, and build the image again",
			layer.Digest, layer.Path("IMAGES")), os.RemoveAll(unfinished))
	}
	return os.Rename(unfinished, target)
}

func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("no space left for the layers of images (.cache/images/unpacked): %w", err)
	}
	return err
}

// unpack writes the files of a layer to a folder. It reads the layer to its end, so that its digest is complete.
func unpack(layer io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	plain := bufio.NewReader(layer)
	var archive io.Reader = plain
	if magic, _ := plain.Peek(2); string(magic) == "\x1f\x8b" {
		if archive, err = gzip.NewReader(plain); err != nil {
			return err
		}
	}
	u := &unpacker{root: root, entries: tar.NewReader(archive)}
	for {
		header, err := u.entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := u.entry(header); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	if err := u.finish(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.MultiReader(archive, plain))
	return err
}

type unpacker struct {
	root    *os.Root
	entries *tar.Reader
	// folders are the folders, which get their modes last, because nothing could be unpacked into a read-only one.
	folders []*tar.Header
}

func (u *unpacker) entry(header *tar.Header) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if name == "" {
		return nil
	}
	if parent := path.Dir(name); parent != "." {
		if err := u.root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	const whiteout, opaque = ".wh.", ".wh..wh..opq"
	switch base := path.Base(name); {
	case base == opaque:
		return u.attribute(path.Dir(name), "user.overlay.opaque", "y")
	case strings.HasPrefix(base, whiteout):
		// This deletes the file that a lower layer has at this name. overlayfs represents that by a device 0/0.
		return u.node(path.Join(path.Dir(name), strings.TrimPrefix(base, whiteout)), unix.S_IFCHR)
	}
	mode := header.FileInfo().Mode()
	if header.Typeflag != tar.TypeDir {
		if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := u.root.MkdirAll(name, 0o755); err != nil {
			return err
		}
		u.folders = append(u.folders, header)
		return u.own(name, header)
	case tar.TypeReg:
		if err := u.file(name, mode); err != nil {
			return err
		}
		if err := u.own(name, header); err != nil {
			return err
		}
		// The mode comes after the owner, because changing the owner clears the set-user-ID bit.
		if err := u.chmod(name, mode); err != nil {
			return err
		}
		return u.root.Chtimes(name, header.ModTime, header.ModTime)
	case tar.TypeSymlink:
		if err := u.root.Symlink(header.Linkname, name); err != nil {
			return err
		}
		return u.own(name, header)
	case tar.TypeLink:
		return u.root.Link(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"), name)
	case tar.TypeFifo:
		return u.node(name, unix.S_IFIFO|uint32(mode.Perm()))
	}
	return nil // devices: only the machine's root may create them, and every container has those that it may use
}

func (u *unpacker) file(name string, mode fs.FileMode) error {
	file, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode.Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, u.entries)
	return errors.Join(err, file.Close())
}

func (u *unpacker) chmod(name string, mode fs.FileMode) error {
	return u.root.Chmod(name, mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

// own changes the owner of a file. If the owner's ID does not exist here, the file remains ours.
func (u *unpacker) own(name string, header *tar.Header) error {
	if header.Uid == 0 && header.Gid == 0 {
		return nil
	}
	err := u.root.Lchown(name, header.Uid, header.Gid)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

// in calls do with a descriptor of the folder that contains a name.
func (u *unpacker) in(name string, do func(folder int) error) error {
	folder, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer folder.Close()
	return do(int(folder.Fd()))
}

func (u *unpacker) node(name string, mode uint32) error {
	return u.in(name, func(folder int) error {
		err := unix.Mknodat(folder, path.Base(name), mode, 0)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	})
}

func (u *unpacker) attribute(name, key, value string) error {
	folder, err := u.root.Open(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	return unix.Fsetxattr(int(folder.Fd()), key, []byte(value), 0)
}

func (u *unpacker) finish() error {
	for _, header := range slices.Backward(u.folders) {
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if err := u.chmod(name, header.FileInfo().Mode()); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	return nil
}

// copyLayer copies an unpacked layer over a folder. Like overlayfs, it replaces any other file that a lower layer has
// in place of a folder. A lower layer may have a link there, which could point anywhere.
func copyLayer(layer, target string) error {
	from, err := os.OpenRoot(layer)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer to.Close()
	return fs.WalkDir(from.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := cover(from, to, name, info); err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			err = to.MkdirAll(name, 0o755)
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			if link, err = from.Readlink(name); err == nil {
				err = to.Symlink(link, name)
			}
		case info.Mode().IsRegular():
			err = copyFile(from, to, name, info.Mode())
		default:
			return nil // the mark of a deleted file, which cover has already removed
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			err := to.Lchown(name, int(stat.Uid), int(stat.Gid))
			if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) {
				return err
			}
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		return to.Chmod(name, info.Mode())
	})
}

// cover removes the files that lower layers have at a name, unless both they and this layer have a folder there. An
// opaque folder hides the contents of theirs.
func cover(from, to *os.Root, name string, info fs.FileInfo) error {
	existing, err := to.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !existing.IsDir() || !info.IsDir() {
		return to.RemoveAll(name)
	}
	opaque, err := isOpaque(from, name)
	if err != nil || !opaque {
		return err
	}
	entries, err := fs.ReadDir(to.FS(), name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := to.RemoveAll(path.Join(name, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// isOpaque reports whether a folder hides those of lower layers.
func isOpaque(layer *os.Root, name string) (bool, error) {
	folder, err := layer.Open(name)
	if err != nil {
		return false, err
	}
	defer folder.Close()
	value := make([]byte, 1)
	n, err := unix.Fgetxattr(int(folder.Fd()), "user.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y', nil // an error means that there is no such mark
}

func copyFile(from, to *os.Root, name string, mode fs.FileMode) error {
	source, err := from.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode.Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
