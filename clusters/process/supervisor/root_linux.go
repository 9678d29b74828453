// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// From linux/mount.h. The system call has this number on all architectures that Go knows.
const (
	sysMountSetattr = 442
	attrReadOnly    = 0x1
	attrNoSuid      = 0x2
	attrNoDevices   = 0x4
	atRecursive     = 0x8000
)

// devices are the devices that programs expect. None of them stores or reveals anything.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// privateRoot gives this process, and all that it starts, a root that holds what the program may read or write, under
// the same names, and nothing else. The process must be the first one of its namespaces. After an error, only the files
// below walls.Root may be incomplete.
func privateRoot(walls *Walls) error {
	// This is the maximum size of the root itself, which contains only mount points of other file systems.
	const options = "size=1m,mode=755"
	if err := syscall.Mount("tmpfs", walls.Root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return err
	}
	err := mountContents(walls)
	if err == nil {
		err = setReadOnly(walls.Root, attrNoDevices, 0)
	}
	if err == nil {
		err = enter(walls.Root)
	}
	if err != nil {
		return errors.Join(err, syscall.Unmount(walls.Root, syscall.MNT_DETACH))
	}
	return nil
}

// mountContents mounts what the program may use below the new root.
func mountContents(walls *Walls) error {
	proc := walls.Root + "/proc"
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := mountProc(proc, true); err != nil {
		return err
	}
	for _, device := range devices {
		if err := mountInto(walls.Root, device); err != nil {
			return err
		}
		// The device can be written to all the same, but its mode stays.
		if err := setReadOnly(walls.Root+device, 0, 0); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	for _, path := range walls.Read {
		if err := mountInto(walls.Root, path); err != nil {
			return err
		}
		if err := setReadOnly(walls.Root+path, attrNoDevices, atRecursive); err != nil && !isInaccessible(err) {
			return err
		}
	}
	// A folder that may be written can be below one that may only be read.
	for _, path := range walls.Write {
		if err := mountInto(walls.Root, path); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts a /proc of this PID namespace. A walled program may not write there. To the kernel, root in a user
// namespace is root, and may set everything below /proc/sys. An example is core_pattern(5), which names a program that
// the machine's root runs.
func mountProc(at string, readOnly bool) error {
	flags := uintptr(syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("proc", at, "proc", flags, "")
}

// isInaccessible reports whether an error means that there is no such file, or none that our user can access. Such an
// error would otherwise cost all walls.
func isInaccessible(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EACCES)
}

// mountInto mounts a file or a folder under its own name below the root, or creates the same link there. It omits an
// inaccessible one.
func mountInto(root, path string) error {
	info, err := os.Lstat(path)
	if isInaccessible(err) {
		return nil
	}
	if err != nil {
		return err
	}
	at := root + path
	if err := os.MkdirAll(folderOf(at), 0o755); err != nil {
		return err
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0: // /bin is a link to usr/bin
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, at); !errors.Is(err, syscall.EEXIST) {
			return err
		}
		return nil
	case info.IsDir():
		err = os.Mkdir(at, 0o755)
	default:
		var file *os.File
		if file, err = os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	// Mounts below it that came with the namespace may not be separated from it, so they are mounted, too.
	return syscall.Mount(path, at, "", syscall.MS_BIND|syscall.MS_REC, "")
}

// folderOf returns the folder of a file. This package imports nothing that is initialised after reflect, as
// path/filepath is.
func folderOf(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return "/"
}

// setReadOnly makes a mount read-only and gives it more attributes, with all mounts below it if the flags say so. It
// keeps the existing attributes, because a user namespace may not remove any.
func setReadOnly(path string, more uint64, flags uintptr) error {
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return err
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attributes := struct{ set, clear, propagation, namespace uint64 }{set: attrReadOnly | attrNoSuid | more}
	const workingFolder = ^uintptr(99) // AT_FDCWD, -100: the path is absolute
	if _, _, failed := syscall.RawSyscall6(sysMountSetattr, workingFolder, uintptr(unsafe.Pointer(name)), flags,
		uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0); failed != 0 {
		return failed
	}
	return nil
}

// enter makes a mount the root, and leaves the old one behind: pivot_root(2) stacks both at the same place.
func enter(root string) error {
	if err := syscall.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return err
	}
	return syscall.Chdir("/")
}
