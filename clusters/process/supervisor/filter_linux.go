// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"runtime"
	"syscall"
	"unsafe"
)

// From linux/seccomp.h and linux/prctl.h.
const (
	prSetSeccomp      = 22
	seccompModeFilter = 2
	seccompKill       = 0x80000000
	seccompError      = 0x00050000
	seccompAllow      = 0x7fff0000
)

// auditArchitectures are the numbers that linux/audit.h gives to those of Go's architectures that have 64 bits and are
// little-endian.
var auditArchitectures = map[string]uint32{
	"amd64": 0xc000003e, "arm64": 0xc00000b7, "loong64": 0xc0000102, "ppc64le": 0xc0000015, "riscv64": 0xc00000f3,
}

// keepLimits keeps this thread, and all that it starts from now on, from changing the limits of other processes
// (prlimit(2)). Landlock has no say in that, and a process whose limit of processor time is 0 is killed. A process
// names itself by 0 there. By its own number it can only ask: the filter does not know whose number it is. System calls
// of another architecture (int 0x80) end the program: their numbers mean other calls. This thread must have renounced
// privileges. On other architectures than these it fails: nothing is run without the filter.
func keepLimits() error {
	native, known := auditArchitectures[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	const (
		load    = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
		equal   = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
		atLeast = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
		answer  = syscall.BPF_RET | syscall.BPF_K
		// Offsets in struct seccomp_data of linux/seccomp.h. A process's number has 32 bits, and an address 64.
		number, architecture, process, limitLow, limitHigh = 0, 4, 16, 32, 36
		x32                                                = 0x40000000 // the first call of x32, for amd64
	)
	filter := []syscall.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: native, Jt: 1},
		{Code: answer, K: seccompKill},
		{Code: load, K: number},
		{Code: atLeast, K: x32, Jt: 8},
		{Code: equal, K: syscall.SYS_PRLIMIT64, Jf: 6},
		{Code: load, K: process},
		{Code: equal, K: 0, Jt: 4},
		{Code: load, K: limitLow},
		{Code: equal, K: 0, Jf: 4},
		{Code: load, K: limitHigh},
		{Code: equal, K: 0, Jf: 2},
		{Code: answer, K: seccompAllow},
		{Code: answer, K: seccompError | uint32(syscall.ENOSYS)},
		{Code: answer, K: seccompError | uint32(syscall.EPERM)},
	}
	return loadFilter(filter)
}

// loadFilter filters the system calls of this thread, and of all that it starts from now on. This thread must have renounced privileges.
func loadFilter(filter []syscall.SockFilter) error {
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := syscall.RawSyscall(
		syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}
