// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/process/pid"
)

// pidfd returns a descriptor of a process, for a program that enters its namespaces (pidfd_open(2)).
func pidfd(process *os.Process) (*os.File, error) {
	descriptor := -1
	var duplicateErr error
	err := process.WithHandle(func(pidfd uintptr) {
		descriptor, duplicateErr = unix.FcntlInt(pidfd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, duplicateErr); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(descriptor), "process"), nil
}

// members finds the processes of a container that has no PID namespace of its own, and whose processes therefore
// survive its first one. They may have left their parents, but not the container's mount namespace.
type members struct {
	mounts *os.File // the mount namespace: while it is open, no other namespace gets its number
	cgroup string
}

// membersOf returns the members of the container whose first process has this PID.
func membersOf(first int, cgroup string) (*members, error) {
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", first))
	if err != nil {
		return nil, fmt.Errorf("opening the mount namespace of a container: %w", err)
	}
	return &members{mounts, cgroup}, nil
}

// end kills them. It repeats until it finds none, because a process may fork in the meantime, and on a busy machine
// processes take long to end. It gives up after a minute, and leaves those that the kernel can't end because they wait
// for a disk.
func (m *members) end() {
	if m == nil {
		return
	}
	defer m.mounts.Close()
	if m.cgroup != "" {
		// Since Linux 5.14, this kills all processes at once, however fast they fork.
		_ = os.WriteFile(filepath.Join(m.cgroup, "cgroup.kill"), []byte("1"), 0)
	}
	mounts, err := m.mounts.Stat()
	if err != nil {
		return
	}
	const pause, patience = time.Millisecond, time.Minute
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); <-time.After(pause) {
		found := false
		for _, number := range pid.All() {
			found = killIn(mounts, number) || found
		}
		if !found {
			return
		}
	}
}

// killIn kills the process with this PID, if it is in a mount namespace.
func killIn(mounts os.FileInfo, number int) bool {
	process, ok := pid.Open(number) // before the check, so that the PID can't be reused
	if !ok {
		return false
	}
	defer process.Close()
	other, err := os.Stat(fmt.Sprintf("/proc/%d/ns/mnt", number))
	return err == nil && os.SameFile(mounts, other) && process.Signal(unix.SIGKILL)
}

// killTree kills a process and its descendants. It does not find descendants whose parents have ended.
func killTree(process *os.Process) {
	below := pid.Below(process.Pid)
	if process.Signal(unix.Signal(0)) != nil {
		return // it has ended, so the PID may have belonged to another process
	}
	for _, child := range below {
		child.Signal(unix.SIGKILL)
	}
	_ = process.Signal(unix.SIGKILL)
}
