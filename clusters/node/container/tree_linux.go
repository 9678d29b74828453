// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// tree is a file system under construction. Symbolic links in it are resolved as if it were the root already. Otherwise
// an image could have a volume mounted on the node.
type tree struct{ root string }

// wanted is what open creates if the path does not exist.
type wanted int

const (
	folder wanted = iota
	file
)

// open opens a path in the tree, without reading it. It creates the path if it does not exist.
func (t tree) open(name string, want wanted) (int, error) {
	root, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	found, err := openIn(root, name)
	if !errors.Is(err, unix.ENOENT) {
		return found, err
	}
	name = path.Clean("/" + name)
	if name == "/" {
		return -1, unix.ENOENT
	}
	parent, err := t.open(path.Dir(name), folder)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if want == folder {
		err = unix.Mkdirat(parent, path.Base(name), 0o755)
	} else {
		var made int
		if made, err = unix.Openat(
			parent, path.Base(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644,
		); err == nil {
			err = unix.Close(made)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		return t.follow(parent, name, want)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "make", Path: name, Err: err}
	}
	return openIn(root, name)
}

// follow creates and opens the target of a symbolic link whose target does not exist.
func (t tree) follow(parent int, name string, want wanted) (int, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(parent, path.Base(name), target)
	if err != nil {
		return -1, &fs.PathError{Op: "make", Path: name, Err: err}
	}
	to := string(target[:n])
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(name), to)
	}
	if to = path.Clean(to); to == path.Clean("/"+name) {
		return -1, &fs.PathError{Op: "make", Path: name, Err: unix.ELOOP}
	}
	return t.open(to, want)
}

func openIn(root int, name string) (int, error) {
	return unix.Openat2(root, path.Clean("/"+name), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT,
	})
}

// at opens a name in the tree, and calls do with a path to it.
func (t tree) at(name string, want wanted, do func(path string) error) error {
	descriptor, err := t.open(name, want)
	if err != nil {
		return err
	}
	defer unix.Close(descriptor)
	return do(fmt.Sprintf("/proc/self/fd/%d", descriptor))
}

// part returns a mount of a path in the tree. The path can't point outside the tree.
func (t tree) part(name string) (mount int, is wanted, err error) {
	root, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, folder, err
	}
	defer unix.Close(root)
	found, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH,
	})
	if errors.Is(err, unix.EXDEV) {
		return -1, folder, fmt.Errorf("the subPath %q points outside the image", name)
	}
	if err != nil {
		return -1, folder, fmt.Errorf("the subPath %q of the image: %w", name, err)
	}
	defer unix.Close(found)
	var stat unix.Stat_t
	if err := unix.Fstat(found, &stat); err != nil {
		return -1, folder, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		is = file
	}
	mount, err = unix.OpenTree(found, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	return mount, is, err
}

// mask hides the contents of a path, if it exists.
func (t tree) mask(name string) error {
	descriptor, err := t.existing(name)
	if err != nil || descriptor < 0 {
		return err
	}
	defer unix.Close(descriptor)
	target := fmt.Sprintf("/proc/self/fd/%d", descriptor)
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.Mount("tmpfs", target, "tmpfs", unix.MS_RDONLY, "size=0")
	}
	return unix.Mount("/dev/null", target, "", unix.MS_BIND, "")
}

// makeReadOnly makes a path read-only, if it exists.
func (t tree) makeReadOnly(name string) error {
	descriptor, err := t.existing(name)
	if err != nil || descriptor < 0 {
		return err
	}
	target := fmt.Sprintf("/proc/self/fd/%d", descriptor)
	err = unix.Mount(target, target, "", unix.MS_BIND|unix.MS_REC, "")
	_ = unix.Close(descriptor)
	if err != nil {
		return err
	}
	if descriptor, err = t.existing(name); err != nil || descriptor < 0 {
		return err
	}
	defer unix.Close(descriptor)
	return namespace.ReadOnly(fmt.Sprintf("/proc/self/fd/%d", descriptor))
}

// existing opens a path of the tree. It returns -1 if the path does not exist.
func (t tree) existing(name string) (int, error) {
	root, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	descriptor, err := openIn(root, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return -1, nil
	}
	return descriptor, err
}
