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
// (prlimit(2)). Landlock does not restrict that, and a process whose limit of processor time is 0 is killed. A process
// names itself by 0 there. With its own number, it can only read limits, because the filter does not know which process
// has the number. System calls of another architecture (int 0x80) end the program, because their numbers mean other
// calls. This thread must not be able to get new privileges (setNoNewPrivs). keepLimits fails on other architectures
// than these, so that nothing runs without the filter.
func keepLimits() error {
	native, known := auditArchitectures[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	const x32 = 0x40000000 // the first call of x32, for amd64
	return loadFilter(assemble([]instruction{
		{code: load, k: architectureAt},
		{code: equal, k: native, no: "kill"},
		{code: load, k: numberAt},
		{code: atLeast, k: x32, yes: "missing"},
		{code: equal, k: syscall.SYS_PRLIMIT64, no: "allow"},
		{code: load, k: argumentsAt}, // the process whose limits they are
		{code: equal, k: 0, yes: "allow"},
		{code: load, k: argumentsAt + 2*argument}, // the new limits, or none to read them
		{code: equal, k: 0, no: "refuse"},
		{code: load, k: argumentsAt + 2*argument + upperHalf},
		{code: equal, k: 0, no: "refuse"},

		{label: "allow", code: answer, k: seccompAllow},
		{label: "missing", code: answer, k: seccompError | uint32(syscall.ENOSYS)},
		{label: "refuse", code: answer, k: seccompError | uint32(syscall.EPERM)},
		{label: "kill", code: answer, k: seccompKill},
	}))
}

// Codes of instructions, and offsets in struct seccomp_data of linux/seccomp.h. Arguments have 64 bits. The lower half
// comes first, and holds flags and the numbers of processes.
const (
	load    = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	equal   = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	atLeast = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
	isSet   = syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K
	and     = syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K
	answer  = syscall.BPF_RET | syscall.BPF_K

	numberAt, architectureAt, argumentsAt = 0, 4, 16
	argument, upperHalf                   = 8, 4
)

// instruction is one instruction of a filter. A jump names the labels of the instructions that follow it. An empty
// label means the next one.
type instruction struct {
	label   string
	code    uint16
	k       uint32
	yes, no string
}

func assemble(program []instruction) []syscall.SockFilter {
	at := map[string]int{}
	for i, one := range program {
		if one.label != "" {
			at[one.label] = i
		}
	}
	filter := make([]syscall.SockFilter, len(program))
	for i, one := range program {
		to := func(label string) uint8 {
			if label == "" {
				return 0
			}
			return uint8(at[label] - i - 1)
		}
		filter[i] = syscall.SockFilter{Code: one.code, Jt: to(one.yes), Jf: to(one.no), K: one.k}
	}
	return filter
}

// loadFilter filters the system calls of this thread, and of all that it starts from now on. This thread must not
// be able to get new privileges (setNoNewPrivs).
func loadFilter(filter []syscall.SockFilter) error {
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := syscall.RawSyscall(
		syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}
