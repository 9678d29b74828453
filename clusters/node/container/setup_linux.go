// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Main sets up the container in this process and then executes the program, if Start has started the process for that.
// The main goroutine must call it first in main. Rights, filter and root belong to a thread, and the thread that calls
// exec passes on its own, so package namespace keeps this goroutine on one thread.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	unix.CloseOnExec(specDescriptor)
	unix.CloseOnExec(statusDescriptor)
	unix.CloseOnExec(processDescriptor) // it may not be there
	status := os.NewFile(statusDescriptor, "status")
	var spec Spec
	err := json.NewDecoder(os.NewFile(specDescriptor, "spec")).Decode(&spec)
	if err == nil {
		err = spec.become()
	}
	_, _ = io.WriteString(status, err.Error())
	const notStarted = 128 // what container runtimes say of a container that never ran
	os.Exit(notStarted)
}

// become returns only an error.
func (s *Spec) become() error {
	if s.Cgroup != "" {
		if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("joining its control group: %w", err)
		}
		if !s.Enter {
			// From here on it is the root of all groups that the container sees, so that programs find their limits where they
			// look.
			if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
				return fmt.Errorf("joining its control group: %w", err)
			}
		}
	}
	if s.OOMScoreAdjust != 0 {
		// Lower than our own is root's to give.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(s.OOMScoreAdjust)), 0)
	}
	single := namespace.SingleID()
	if s.Enter {
		if err := s.enter(); err != nil {
			return err
		}
	} else if err := s.makeFiles(); err != nil {
		return err
	}
	if err := s.changeDir(); err != nil {
		return err
	}
	program, err := s.program()
	if err != nil {
		return err
	}
	if err := s.limit(single); err != nil {
		return err
	}
	if err := syscall.Exec(program, s.Args, s.Env); err != nil {
		return fmt.Errorf("exec: %q: %w", s.Args[0], err)
	}
	return nil
}

// enter joins the namespaces of a process of the container. Its process namespace we were born in.
func (s *Spec) enter() error {
	defer unix.Close(processDescriptor)
	// Who has the same root and working folder as other threads can't change mounts (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	all := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if s.Cgroup != "" {
		all |= unix.CLONE_NEWCGROUP
	}
	if err := unix.Setns(processDescriptor, all); err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	return nil
}

// makeFiles puts the container's file system together and moves into it.
func (s *Spec) makeFiles() error {
	// What the node mounts from here on may appear in a container's volumes (HostToContainer), and nothing of ours at the
	// node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("taking the mounts for ourselves: %w", err)
	}
	t, err := s.Root.mount()
	if err != nil {
		return err
	}
	if err := t.system(s); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := t.volume(m); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Target, err)
		}
	}
	for _, hidden := range s.Masked {
		if err := t.hide(hidden); err != nil {
			return fmt.Errorf("hiding %s: %w", hidden, err)
		}
	}
	for _, fixed := range s.ReadOnly {
		if err := t.fix(fixed); err != nil {
			return fmt.Errorf("making %s read-only: %w", fixed, err)
		}
	}
	if s.Dir != "" { // before the root is read-only
		if folder, err := t.open(s.Dir, folder); err == nil {
			_ = unix.Close(folder)
		}
	}
	if s.Root.ReadOnly {
		if err := unix.MountSetattr(unix.AT_FDCWD, t.root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("making the root file system read-only: %w", err)
		}
	}
	return namespace.Pivot(t.root)
}

// mount mounts the layers on the root's folder.
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
		// Without an upper layer overlayfs wants two, so that there is something to put together.
		return errors.Join(err, bindReadOnly(layers[0], target))
	}
	if err == nil {
		err = unix.FsconfigSetFlag(system, "userxattr") // the marks of deleted files are attributes that a user may set
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
	// lowerdir+ came with Linux 6.8. Before, all layers are one option, topmost first.
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

// bindReadOnly shows a folder with all that is mounted in it at another path, which may be that of a descriptor. It is
// read-only before it can be seen.
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

// tree is a file system under construction. Symbolic links in it lead to where they will, once it is the root: an image
// must not be able to have a volume mounted on the node.
type tree struct{ root string }

// wanted is what open makes if it is not there.
type wanted int

const (
	folder wanted = iota
	file
)

// open opens a path in the tree, without reading it. It is made if it does not exist.
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
		if made, err = unix.Openat(parent, path.Base(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
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

// follow opens what a symbolic link leads to, and makes it: it is not there yet.
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
	return unix.Openat2(root, path.Clean("/"+name), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}

// at calls with a path of what is at a name in the tree.
func (t tree) at(name string, want wanted, do func(path string) error) error {
	descriptor, err := t.open(name, want)
	if err != nil {
		return err
	}
	defer unix.Close(descriptor)
	return do(fmt.Sprintf("/proc/self/fd/%d", descriptor))
}

// system mounts what the kernel has to tell: /proc, /sys, /dev.
func (t tree) system(s *Spec) error {
	if s.NodeProcesses {
		if err := t.at("/proc", folder, func(p string) error { return unix.Mount("/proc", p, "", unix.MS_BIND|unix.MS_REC, "") }); err != nil {
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
		// A program can do without. It may look at its limits, and its Pod alone sets them.
		_ = t.at("/sys/fs/cgroup", folder, func(p string) error {
			return unix.Mount("cgroup2", p, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
		})
	}
	if s.Devices {
		return t.at("/dev", folder, func(p string) error { return unix.Mount("/dev", p, "", unix.MS_BIND|unix.MS_REC, "") })
	}
	if err := t.at("/dev", folder, func(p string) error { return t.devices(p, s) }); err != nil {
		return fmt.Errorf("making /dev: %w", err)
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
		if err := in(name, file, func(p string) error { return unix.Mount("/dev/"+name, p, "", unix.MS_BIND, "") }); err != nil {
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
	// POSIX message queues belong to the IPC namespace. A kernel may be without.
	_ = in("mqueue", folder, func(p string) error {
		return unix.Mount("mqueue", p, "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	})
	if s.Terminal {
		if terminal, err := os.Readlink("/proc/self/fd/0"); err == nil {
			if err := in("console", file, func(p string) error { return unix.Mount(terminal, p, "", unix.MS_BIND, "") }); err != nil {
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

// volume mounts one.
func (t tree) volume(m Mount) error {
	if m.Memory != "" {
		return t.at(m.Target, folder, func(p string) error {
			return unix.Mount("tmpfs", p, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size="+m.Memory)
		})
	}
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
	if err := t.at(m.Target, want, func(p string) error { return unix.Mount(m.Source, p, "", unix.MS_BIND|unix.MS_REC, "") }); err != nil {
		return err
	}
	// Opened again: the path now leads to what was mounted.
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
	// All of it covers the container's root for as long as it takes to find the part.
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

// part is a mount of what is at a path in the tree, which may not lead out of it.
func (t tree) part(name string) (mount int, is wanted, err error) {
	root, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, folder, err
	}
	defer unix.Close(root)
	found, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
	if errors.Is(err, unix.EXDEV) {
		return -1, folder, fmt.Errorf("the subPath %q leaves the image", name)
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

// hide makes a path empty, if it is there.
func (t tree) hide(name string) error {
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

// fix makes a path read-only, if it is there.
func (t tree) fix(name string) error {
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

// existing opens a path of the tree. -1: there is none.
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

func (s *Spec) changeDir() error {
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("changing to the working directory: %w", err)
	}
	return nil
}

// program finds the program's file.
func (s *Spec) program() (string, error) {
	if len(s.Args) == 0 {
		return "", errors.New("no command: neither the Pod nor the image says what to run")
	}
	name := s.Args[0]
	if strings.Contains(name, "/") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("exec: %q: %w", name, errors.Unwrap(err))
		}
		return name, nil
	}
	search := Path
	for _, variable := range s.Env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			search = value
		}
	}
	for dir := range strings.SplitSeq(search, ":") {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

// limit takes all rights away that the program is not to have.
func (s *Spec) limit(single bool) error {
	if err := limitCapabilities(s.Capabilities); err != nil {
		return err
	}
	const umask = 0o022
	unix.Umask(umask)
	// To load a filter takes a capability, so it comes before those go.
	if err := s.filter(single); err != nil {
		return err
	}
	switch {
	case !single:
		return s.changeUser()
	case s.User != 0:
		// We are already called so, or have entered the container of one who is.
		return dropCapabilities(nil)
	}
	return nil
}

func (s *Spec) changeUser() error {
	if err := unix.Setgroups(s.Groups); err != nil {
		return fmt.Errorf("joining the groups %v: %w", s.Groups, err)
	}
	if err := unix.Setresgid(s.Group, s.Group, s.Group); err != nil {
		return fmt.Errorf("becoming a member of group %d: %w", s.Group, idError(err))
	}
	// With the change from root to another user all capabilities go.
	if err := unix.Setresuid(s.User, s.User, s.User); err != nil {
		return fmt.Errorf("becoming user %d: %w", s.User, idError(err))
	}
	return nil
}

func idError(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return errors.New("the node has no such id: it has those from 0 to 65535 (see /proc/self/uid_map)")
	}
	return err
}

// filter loads filters of system calls.
func (s *Spec) filter(single bool) error {
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("giving up new privileges: %w", err)
		}
	}
	if s.Seccomp {
		if err := RuntimeDefault(s.Capabilities); err != nil {
			return err
		}
	}
	if single {
		return PretendOwners()
	}
	return nil
}
