// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Main sets up the container in this process and then executes the program, if Start has started the process for that.
// The main goroutine must call it first in main. Rights, filter and root belong to a thread, and the thread that calls
// exec passes on its own. That is why package namespace keeps this goroutine on one thread.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	unix.CloseOnExec(specDescriptor)
	unix.CloseOnExec(statusDescriptor)
	unix.CloseOnExec(processDescriptor) // it is only open if Spec.Enter is set
	status := os.NewFile(statusDescriptor, "status")
	var spec Spec
	err := json.NewDecoder(os.NewFile(specDescriptor, "spec")).Decode(&spec)
	if err == nil {
		err = spec.become()
	}
	_, _ = io.WriteString(status, err.Error())
	const notStarted = 128 // container runtimes use it for containers that did not start
	os.Exit(notStarted)
}

// become sets up the container and executes the program. It returns only on error.
func (s *Spec) become() error {
	if s.Cgroup != "" {
		if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("joining the control group: %w", err)
		}
		if !s.Enter {
			// From now on, the container sees this group as the root of all groups, so that programs find their limits where
			// they expect them.
			if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
				return fmt.Errorf("joining the control group: %w", err)
			}
		}
	}
	if s.OOMScoreAdjust != 0 {
		// Only root can set a score lower than our own.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(s.OOMScoreAdjust)), 0)
	}
	single := namespace.SingleID()
	if s.Enter {
		if err := s.enter(); err != nil {
			return err
		}
	} else if err := s.createFiles(); err != nil {
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

// enter joins the namespaces of a process of the container. This process was created in the container's PID namespace.
func (s *Spec) enter() error {
	defer unix.Close(processDescriptor)
	// A thread that shares its root and working folder with other threads can't change mounts (setns(2)).
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

// createFiles creates the container's file system and moves into it.
func (s *Spec) createFiles() error {
	// Mounts that the node adds later may appear in a container's volumes (HostToContainer). Our mounts must not appear on
	// the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
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
		if err := t.mask(hidden); err != nil {
			return fmt.Errorf("hiding %s: %w", hidden, err)
		}
	}
	for _, fixed := range s.ReadOnly {
		if err := t.makeReadOnly(fixed); err != nil {
			return fmt.Errorf("making %s read-only: %w", fixed, err)
		}
	}
	if s.Dir != "" { // before the root becomes read-only
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

// limit removes all rights that the program must not have.
func (s *Spec) limit(single bool) error {
	if err := limitCapabilities(s.Capabilities); err != nil {
		return err
	}
	const umask = 0o022
	unix.Umask(umask)
	// Loading a filter requires a capability, so it comes before the capabilities are dropped.
	if err := s.filter(single); err != nil {
		return err
	}
	switch {
	case !single:
		return s.changeUser()
	case s.User != 0:
		// The process already has this user, or has entered a container that has it.
		return dropCapabilities(nil)
	}
	return nil
}

func (s *Spec) changeUser() error {
	if err := unix.Setgroups(s.Groups); err != nil {
		return fmt.Errorf("joining the groups %v: %w", s.Groups, err)
	}
	if err := unix.Setresgid(s.Group, s.Group, s.Group); err != nil {
		return fmt.Errorf("changing to group %d: %w", s.Group, idError(err))
	}
	// When root changes to another user, the process loses all capabilities.
	if err := unix.Setresuid(s.User, s.User, s.User); err != nil {
		return fmt.Errorf("changing to user %d: %w", s.User, idError(err))
	}
	return nil
}

func idError(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return errors.New("the ID is not mapped on the node: use 0 to 65535 (see /proc/self/uid_map)")
	}
	return err
}

// filter loads the filters of system calls.
func (s *Spec) filter(single bool) error {
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("setting no_new_privs: %w", err)
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
