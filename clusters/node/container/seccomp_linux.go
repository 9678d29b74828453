// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// administrators are the system calls of those who run a machine: Docker's default profile refuses them, too. A container that
// has the capability for them in its user namespace would reach code of the kernel that few others do.
var administrators = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
	unix.SYS_FANOTIFY_INIT, unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK,
	unix.SYS_INIT_MODULE, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_URING_SETUP, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_NFSSERVCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT,
	unix.SYS_QUOTACTL, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON,
	unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}

// changeOwner are the system calls that give a file or a process to another user. identities_*.go adds those that only older
// processors have.
var changeOwner = append([]uint32{
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETGROUPS, unix.SYS_SETRESUID,
	unix.SYS_SETRESGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID,
}, olderChangeOwner...)

// processors are those for which a filter can be made, with their numbers in linux/audit.h.
var processors = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// RefuseAdministration has the calls of administrators fail with EPERM, in this thread and all that it executes.
func RefuseAdministration() error { return filter(administrators, unix.EPERM) }

// PretendOwners has chown and setuid succeed and do nothing, in this thread and all that it executes. It is for a user namespace
// with a single id: there is nobody to give a file to, and images and the kubelet take it for granted that there is.
func PretendOwners() error { return filter(changeOwner, 0) }

// filter has system calls end with an error number, where 0 is success (seccomp(2)).
func filter(calls []uint32, number unix.Errno) error {
	processor, known := processors[runtime.GOARCH]
	if !known {
		return nil
	}
	// A program of the classic Berkeley Packet Filter over struct seccomp_data, whose first words are the number of the call and
	// the processor's.
	const callAt, processorAt = 0, 4
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(to uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: to, Jt: uint8(yes), Jf: uint8(no)}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	n := len(calls)
	program := []unix.SockFilter{load(processorAt), equal(processor, 0, n+1), load(callAt)}
	for i, call := range calls {
		program = append(program, equal(call, n-i, 0))
	}
	program = append(program, answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_ERRNO|uint32(number)))
	loaded := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&loaded))); err != 0 {
		return fmt.Errorf("filtering system calls: %w", err)
	}
	return nil
}
