// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package filelock_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/filelock"
)

// NFS 3 without its lock service refuses all locks.
func TestFileSystemWithoutLocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the filter is one of the thread, which ends with the goroutine
		if err := refuseLocks(); err != nil {
			result <- err
			return
		}
		_, err := filelock.Try(name)
		result <- err
	}()
	err := <-result
	const want = "the file system does not support locks: " +
		"clone to a local disk, or start the lock service of the NFS server"
	if !errors.Is(err, unix.ENOLCK) || !strings.Contains(err.Error(), want) {
		t.Errorf("Try() error = %v, want one with %q", err, want)
	}
}

// refuseLocks makes flock(2) of this thread fail.
func refuseLocks() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FLOCK, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOLCK)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}
