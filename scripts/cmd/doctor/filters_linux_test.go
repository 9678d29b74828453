// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// filterVariable names a filter of system calls that this test binary installs before anything else.
const filterVariable = "OPERATOR_LABS_TEST_FILTER"

// filters make this machine answer like one that a test can't have: a container of Docker's, a folder on FAT, and one
// on NFS 3 whose server has no lock service.
var filters = map[string]func() error{
	"container": func() error { return container.RuntimeDefault(nil) },
	"fat":       func() error { return refuse(unix.SYS_SYMLINKAT, unix.EPERM) },
	"no-locks":  func() error { return refuse(unix.SYS_FLOCK, unix.ENOLCK) },
}

// restartFiltered installs a filter and starts this program again, because a filter is one of a thread. It returns only
// if that fails.
func restartFiltered(name string) error {
	runtime.LockOSThread()
	if err := os.Unsetenv(filterVariable); err != nil {
		return err
	}
	if err := filters[name](); err != nil {
		return fmt.Errorf("installing the filter %s: %w", name, err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// refuse makes a system call of this thread fail.
func refuse(number uint32, failure unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(failure)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}
