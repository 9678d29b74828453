// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// emulateOlderKernel hides from this process and its descendants what older kernels do not have: Landlock for signals
// (Linux 6.12), and signals to the group of a process descriptor's process (6.9).
func emulateOlderKernel() error {
	const (
		fourth       = 16 + 3*8 // an offset in struct seccomp_data, on machines that are little-endian
		processGroup = 1 << 2   // PIDFD_SIGNAL_PROCESS_GROUP
	)
	if err := installFilter([]unix.SockFilter{
		{Code: bpfLoad, K: atNumber},
		{Code: bpfEqual, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jt: 4},
		{Code: bpfEqual, K: unix.SYS_PIDFD_SEND_SIGNAL, Jf: 2},
		{Code: bpfLoad, K: fourth},
		{Code: bpfEqual, K: processGroup, Jt: 2},
		{Code: bpfAnswer, K: seccompAllow},
		{Code: bpfAnswer, K: seccompFail | uint32(unix.ENOSYS)},
		{Code: bpfAnswer, K: seccompFail | uint32(unix.EINVAL)},
	}); err != nil {
		return err
	}
	if _, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1); failed != unix.ENOSYS {
		return fmt.Errorf("the kernel is not an older one: %w", failed)
	}
	return nil
}

// haveNoHandles hides from this process and its descendants the descriptors of processes, which kernels before Linux
// 5.3 do not have.
func haveNoHandles() error {
	if err := withoutCalls(unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL); err != nil {
		return err
	}
	if _, err := unix.PidfdOpen(os.Getpid(), 0); !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("the kernel is not an older one: %w", err)
	}
	return nil
}

// withoutCalls makes system calls fail as unknown ones do.
func withoutCalls(numbers ...uint32) error {
	filter := []unix.SockFilter{{Code: bpfLoad, K: atNumber}}
	for _, number := range numbers {
		filter = append(filter, unix.SockFilter{Code: bpfEqual, K: number, Jf: 1},
			unix.SockFilter{Code: bpfAnswer, K: seccompFail | uint32(unix.ENOSYS)})
	}
	return installFilter(append(filter, unix.SockFilter{Code: bpfAnswer, K: seccompAllow}))
}

// From linux/bpf_common.h and linux/seccomp.h.
const (
	bpfLoad      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfAnswer    = unix.BPF_RET | unix.BPF_K
	atNumber     = 0 // an offset in struct seccomp_data
	seccompAllow = 0x7fff0000
	seccompFail  = 0x00050000
)

// installFilter installs a filter of system calls for all threads and their descendants.
func installFilter(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	install := func() unix.Errno {
		_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
			uintptr(unsafe.Pointer(&program)))
		return failed
	}
	failed := install()
	if failed == unix.EACCES { // only root may do so and still get privileges
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		failed = install()
	}
	if failed != 0 {
		return failed
	}
	return nil
}
