// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root is a file system for the first process: a tmpfs with the files that every system has, and only those of the
// machine's files that are listed in Mounts. So a Pod that mounts the node's / sees no files of the user who runs the
// node.
type Root struct {
	Mounts []Mount
	// Files are small files by path, written before the mounts.
	Files map[string]string
	// Links are symbolic links, by path.
	Links map[string]string
}

// Mount is a part of the machine's files, or a tmpfs.
type Mount struct {
	// Target is the absolute path at which it is seen. Missing parent folders are created.
	Target string
	// Source is a file or folder of the machine. If it is empty, a tmpfs is mounted.
	Source string
	// Tree, if not 0, is the descriptor of the source. A process that may read the source has opened it (Detach).
	Tree     int
	ReadOnly bool
	// Options are the options of a tmpfs: "size=1g,mode=1777".
	Options string
}

// Detach copies the mount of a file or folder, so that it can be mounted in namespaces that have no right to see the
// path. It needs root. The namespaces of other users see what these users see.
func Detach(path string) (*os.File, error) {
	descriptor, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	tree := os.NewFile(uintptr(descriptor), path)
	// systemd makes the machine's mounts shared. The copy would be shared, too, and mounts in it would appear on the
	// machine.
	private := &unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(descriptor, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, private); err != nil {
		return nil, errors.Join(&os.PathError{Op: "mount_setattr", Path: path, Err: err}, tree.Close())
	}
	return tree, nil
}

// devices are the devices that a program may expect. None of them allows a program to do harm.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// base is where the new root is assembled. The mount hides the files there, which is why all sources are opened first.
const base = "/tmp"

// Enter creates the file system and moves into it. After that, the old one can only be reached through open
// descriptors.
func (r Root) Enter() error {
	if err := r.open(); err != nil {
		return err
	}
	devs := make([]int, len(devices))
	for i, name := range devices {
		descriptor, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("opening /dev/%s: %w", name, err)
		}
		devs[i] = descriptor
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NODEV, "mode=755,size=64m"); err != nil {
		return fmt.Errorf("mounting a tmpfs for the node's files: %w", err)
	}
	for _, dir := range []string{
		"bin", "dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr/bin", "usr/lib", "var",
	} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			return err
		}
	}
	for _, system := range []struct {
		kind string
		mask uintptr
	}{{"proc", 0}, {"sysfs", unix.MS_RDONLY}} {
		if err := mountSystem(system.kind, system.mask); err != nil {
			return err
		}
	}
	if err := createDevices(devs); err != nil {
		return err
	}
	for path, content := range r.Files {
		if err := os.MkdirAll(filepath.Dir(base+path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(base+path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, m := range r.Mounts {
		if err := m.attach(); err != nil {
			return fmt.Errorf("mounting %s as the node's %s: %w", m.what(), m.Target, err)
		}
	}
	for path, target := range r.Links {
		if err := os.MkdirAll(filepath.Dir(base+path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, base+path); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return Pivot(base)
}

// open opens the sources that are not open yet.
func (r Root) open() error {
	for i, m := range r.Mounts {
		if m.Source == "" || m.Tree != 0 {
			continue
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("opening %s: %w", m.Source, err)
		}
		r.Mounts[i].Tree = tree
	}
	return nil
}

func (m Mount) what() string {
	if m.Source == "" && m.Tree == 0 {
		return "a tmpfs"
	}
	return m.Source
}

func (m Mount) attach() error {
	target := base + m.Target
	if m.Tree == 0 {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NODEV, m.Options)
	}
	defer unix.Close(m.Tree)
	if err := point(m.Tree, target); err != nil {
		return err
	}
	if err := unix.MoveMount(m.Tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if m.ReadOnly {
		return ReadOnly(target)
	}
	return nil
}

// point creates a file or a folder on which a tree can be mounted.
func point(tree int, target string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(tree, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// ReadOnly makes a mount and all mounts below it read-only.
func ReadOnly(path string) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY,
	}); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	return nil
}

// mountSystem mounts /proc or /sys of these namespaces. If parts of the machine's own mount are hidden, as in a
// container, the kernel refuses a new one, and the machine's is used instead.
func mountSystem(kind string, flags uintptr) error {
	old := map[string]string{"proc": "/proc", "sysfs": "/sys"}[kind]
	const harmless = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := unix.Mount(kind, base+old, kind, harmless|flags, "")
	if err == nil && kind == "sysfs" {
		err = mountCgroups()
	}
	if err == nil {
		return nil
	}
	if kind == "proc" {
		return fmt.Errorf("mounting /proc for the node's processes: %w", err)
	}
	if bindErr := unix.Mount(old, base+old, "", unix.MS_BIND|unix.MS_REC, ""); bindErr != nil {
		return fmt.Errorf("mounting %s: %w", old, errors.Join(err, bindErr))
	}
	return ReadOnly(base + old)
}

// mountCgroups mounts the machine's control groups below the new /sys, read-only.
func mountCgroups() error {
	const groups = "/sys/fs/cgroup"
	if err := unix.Mount(groups, base+groups, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return ReadOnly(base + groups)
}

func createDevices(trees []int) error {
	dev := base + "/dev"
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64m"); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	for i, name := range devices {
		target := filepath.Join(dev, name)
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mounting /dev/%s: %w", name, err)
		}
		_ = unix.Close(trees[i])
	}
	for dir, mode := range map[string]os.FileMode{"pts": 0o755, "shm": 0o1777} {
		if err := os.Mkdir(filepath.Join(dev, dir), mode); err != nil {
			return err
		}
	}
	if err := unix.Mount(
		"devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620",
	); err != nil {
		return fmt.Errorf("mounting /dev/pts: %w", err)
	}
	if err := unix.Mount("tmpfs", dev+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mounting /dev/shm: %w", err)
	}
	for name, target := range DeviceLinks {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// DeviceLinks are the symbolic links that every /dev has.
var DeviceLinks = map[string]string{
	"ptmx":   "pts/ptmx",
	"fd":     "/proc/self/fd",
	"stdin":  "/proc/self/fd/0",
	"stdout": "/proc/self/fd/1",
	"stderr": "/proc/self/fd/2",
}

// Pivot makes a mount the root of the file system, and unmounts the old one.
func Pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// pivot_root(2) mounts the old root on top of the new one, so that no folder is needed for it.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root of the file system: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old file system: %w", err)
	}
	return os.Chdir("/")
}
