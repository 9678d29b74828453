// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// mount mounts the layers on the root's folder, and returns the tree.
func (r Root) mount() (tree, error) {
	t := tree{root: r.Dir}
	if len(r.Layers) == 0 {
		if err := unix.Mount(r.Dir, r.Dir, "", unix.MS_BIND, ""); err != nil {
			return t, fmt.Errorf("mounting the root file system: %w", err)
		}
		return t, nil
	}
	if err := Overlay(r.Dir, r.Layers, r.Upper, r.Work); err != nil {
		return t, fmt.Errorf("mounting the layers of the image: %w", err)
	}
	return t, nil
}

// Overlay mounts layers, lowest first, on a folder. Writes go to upper. Without upper, the mount is read-only. Overlay
// passes each layer to the kernel by itself: the options of mount(2) must fit in a page, and an image has up to 127
// layers.
func Overlay(target string, layers []string, upper, work string) error {
	system, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(system)
	set := func(key, value string) {
		if err == nil {
			if err = unix.FsconfigSetString(system, key, value); err != nil {
				err = fmt.Errorf("%s=%s: %w", key, value, err)
			}
		}
	}
	if err := setLayers(system, layers); err != nil {
		return err
	}
	if upper != "" {
		set("upperdir", upper)
		set("workdir", work)
	} else if len(layers) == 1 {
		// Without an upper layer, overlayfs requires at least two layers.
		return errors.Join(err, bindReadOnly(layers[0], target))
	}
	if err == nil {
		err = unix.FsconfigSetFlag(system, "userxattr") // users may set the attributes that mark deleted files
	}
	if err == nil {
		err = unix.FsconfigCreate(system)
	}
	if err != nil {
		return err
	}
	mount, err := unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
}

func setLayers(system int, layers []string) error {
	// The option lowerdir+ came with Linux 6.8. For older kernels, all layers are one option, topmost first.
	for i, layer := range slices.Backward(layers) {
		err := unix.FsconfigSetString(system, "lowerdir+", layer)
		if err == nil {
			continue
		}
		if i < len(layers)-1 {
			return fmt.Errorf("layer %s: %w", layer, err)
		}
		topmostFirst := slices.Clone(layers)
		slices.Reverse(topmostFirst)
		return unix.FsconfigSetString(system, "lowerdir", strings.Join(topmostFirst, ":"))
	}
	return nil
}

// bindReadOnly bind-mounts a folder, with all mounts below it, at another path, which may be that of a descriptor. The
// mount is read-only before it becomes visible.
func bindReadOnly(source, target string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
}

// system mounts /proc, /sys and /dev.
func (t tree) system(s *Spec) error {
	if s.NodeProcesses {
		if err := t.at("/proc", folder, func(p string) error {
			return unix.Mount("/proc", p, "", unix.MS_BIND|unix.MS_REC, "")
		}); err != nil {
			return fmt.Errorf("mounting /proc: %w", err)
		}
	} else if err := t.at("/proc", folder, func(p string) error {
		return unix.Mount("proc", p, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := t.at("/sys", folder, t.sys); err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	if s.Cgroup != "" {
		// A program can do without this mount. It can read its limits there, but only its Pod can set them.
		_ = t.at("/sys/fs/cgroup", folder, func(p string) error {
			return unix.Mount("cgroup2", p, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
		})
	}
	if s.Devices {
		return t.at("/dev", folder, func(p string) error { return unix.Mount("/dev", p, "", unix.MS_BIND|unix.MS_REC, "") })
	}
	if err := t.at("/dev", folder, func(p string) error { return t.devices(p, s) }); err != nil {
		return fmt.Errorf("creating /dev: %w", err)
	}
	return nil
}

func (t tree) sys(target string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	if unix.Mount("sysfs", target, "sysfs", flags, "") == nil {
		return nil
	}
	return bindReadOnly("/sys", target) // on the node's network, which belongs to another user namespace
}

func (t tree) devices(dev string, s *Spec) error {
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64m"); err != nil {
		return err
	}
	in := func(name string, want wanted, do func(string) error) error {
		if err := t.at("/dev/"+name, want, do); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := in(name, file, func(p string) error {
			return unix.Mount("/dev/"+name, p, "", unix.MS_BIND, "")
		}); err != nil {
			return err
		}
	}
	for _, system := range []struct{ name, kind, options string }{
		{"pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"}, {"shm", "tmpfs", "mode=1777,size=64m"},
	} {
		if err := in(system.name, folder, func(p string) error {
			return unix.Mount(system.kind, p, system.kind, unix.MS_NOSUID|unix.MS_NOEXEC, system.options)
		}); err != nil {
			return err
		}
	}
	// POSIX message queues belong to the IPC namespace. Some kernels do not have them.
	_ = in("mqueue", folder, func(p string) error {
		return unix.Mount("mqueue", p, "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	})
	if s.Terminal {
		if terminal, err := os.Readlink("/proc/self/fd/0"); err == nil {
			if err := in("console", file, func(p string) error {
				return unix.Mount(terminal, p, "", unix.MS_BIND, "")
			}); err != nil {
				return err
			}
		}
	}
	return t.at("/dev", folder, func(p string) error {
		for name, target := range namespace.DeviceLinks {
			if err := os.Symlink(target, filepath.Join(p, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// volume mounts a volume.
func (t tree) volume(m Mount) error {
	if m.Image {
		return t.image(m)
	}
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	want := folder
	if !info.IsDir() {
		want = file
	}
	if err := t.at(m.Target, want, func(p string) error {
		return unix.Mount(m.Source, p, "", unix.MS_BIND|unix.MS_REC, "")
	}); err != nil {
		return err
	}
	// Open the path again, because it now leads to the new mount.
	return t.at(m.Target, want, func(p string) error {
		attributes := unix.MountAttr{}
		switch {
		case m.Share:
			attributes.Propagation = unix.MS_SHARED
		case m.Propagate:
			attributes.Propagation = unix.MS_SLAVE
		default:
			attributes.Propagation = unix.MS_PRIVATE
		}
		if m.ReadOnly {
			attributes.Attr_set = unix.MOUNT_ATTR_RDONLY
		}
		return unix.MountSetattr(unix.AT_FDCWD, p, unix.AT_RECURSIVE, &attributes)
	})
}

// image mounts an image, or a part of it.
func (t tree) image(m Mount) error {
	layers := strings.Split(m.Source, ":")
	if m.SubPath == "" {
		return t.at(m.Target, folder, func(p string) error { return Overlay(p, layers, "", "") })
	}
	// While the part is looked up, the whole image is mounted over the container's root.
	if err := Overlay(t.root, layers, "", ""); err != nil {
		return err
	}
	part, want, err := t.part(m.SubPath)
	if err = errors.Join(err, unix.Unmount(t.root, unix.MNT_DETACH)); err != nil {
		return err
	}
	defer unix.Close(part)
	return t.at(m.Target, want, func(p string) error {
		return unix.MoveMount(part, "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
	})
}
