// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// RuntimeDefault allows this thread, and all that it executes, only the system calls of Docker's default profile. Some
// of them depend on the capabilities that the container has. Other calls fail with EPERM, and those of a later kernel
// with ENOSYS, which programs can handle.
//
// A call of another architecture (int 0x80) kills the program, because its number means another call. Docker has rules
// for the 32-bit calls of the processor, too. Our images do not need them, and they would weaken the filter: i386
// programs can create sockets with socketcall(2), whose arguments no filter can see.
//
// containerd's copy of the profile (contrib/seccomp) lists the same calls. It also allows three that ask about security
// modules, and more address families. Importing it would add some ninety packages, among them those of gRPC.
func RuntimeDefault(capabilities []string) error {
	native, err := nativeCalls()
	if err != nil {
		return err
	}
	f, err := runtimeDefault(native, capabilities)
	if err != nil {
		return err
	}
	return f.load()
}

// DefaultFilter returns the filter of RuntimeDefault for a program without capabilities, as the bytes of its
// instructions.
func DefaultFilter() ([]byte, error) {
	native, err := nativeCalls()
	if err != nil {
		return nil, err
	}
	f, err := runtimeDefault(native, nil)
	if err != nil {
		return nil, err
	}
	size := len(f.program) * int(unsafe.Sizeof(unix.SockFilter{}))
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f.program))), size)), nil
}

// defaultProfile returns Docker's default profile for a container with these capabilities.
func defaultProfile(capabilities []string) (*specs.LinuxSeccomp, error) {
	bounding := make([]string, len(capabilities))
	for i, name := range capabilities {
		bounding[i] = "CAP_" + name
	}
	process := &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: bounding}}
	profile, err := seccomp.GetDefaultProfile(&specs.Spec{Process: process})
	if err != nil {
		return nil, fmt.Errorf("loading the default seccomp profile: %w", err)
	}
	return profile, nil
}

// runtimeDefault returns the filter for the calls of an architecture. Tests on one architecture also check the filter
// of another.
func runtimeDefault(native *arch.Info, capabilities []string) (*filter, error) {
	profile, err := defaultProfile(capabilities)
	if err != nil {
		return nil, err
	}
	f := newFilter(native, unix.SECCOMP_RET_KILL_PROCESS)
	// This also covers the calls of x32, whose numbers are above all others.
	f.add(jump(unix.BPF_JGT, f.last(profile.Syscalls), 0, 1), result(refusal(unix.ENOSYS)))
	for _, rule := range profile.Syscalls {
		if err := f.rule(rule); err != nil {
			return nil, err
		}
	}
	f.add(result(refusal(unix.EPERM)))
	return f, nil
}

// changeOwner are the system calls that give a file or a process to another user. Some of them exist only on older
// architectures.
var changeOwner = []string{
	"chown", "fchown", "fchownat", "lchown", "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid",
	"setresuid", "setreuid", "setuid",
}

// PretendOwners makes chown and setuid succeed without effect, in this thread and all programs that it executes. It is
// for a user namespace with a single ID: images and the kubelet assume that they can give files to other users, but
// there are none. The filter refuses nothing, so it allows calls of another architecture.
func PretendOwners() error {
	native, err := nativeCalls()
	if err != nil {
		return err
	}
	f := newFilter(native, unix.SECCOMP_RET_ALLOW)
	success := uint(0)
	if err := f.rule(specs.LinuxSyscall{Names: changeOwner, Action: specs.ActErrno, ErrnoRet: &success}); err != nil {
		return err
	}
	f.add(result(unix.SECCOMP_RET_ALLOW))
	return f.load()
}

// nativeCalls returns the system calls of this architecture.
func nativeCalls() (*arch.Info, error) {
	native, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("filtering system calls: %w", err)
	}
	return native, nil
}

// filter is a program of the classic Berkeley Packet Filter over struct seccomp_data (seccomp(2)).
//
// The module that the call numbers come from can assemble filters, too. But its filters have no answer for calls of a
// later kernel, treat calls of another architecture as unlisted ones, and cannot pretend that a call succeeded.
type filter struct {
	native  *arch.Info
	program []unix.SockFilter
}

// These are offsets in struct seccomp_data. An argument has 64 bits, and a word of the filter has 32. The lower half of
// an argument comes first.
const (
	callAt, architectureAt, argumentsAt = 0, 4, 16
	half                                = 4
)

// newFilter begins a filter with an action for system calls of another architecture. The rules that follow find the
// number of the call loaded. The caller must end the filter with a result for the calls that match no rule.
func newFilter(native *arch.Info, foreign uint32) *filter {
	f := &filter{native: native}
	f.add(load(architectureAt), jump(unix.BPF_JEQ, uint32(native.ID), 1, 0), result(foreign), load(callAt))
	return f
}

func (f *filter) add(instructions ...unix.SockFilter) { f.program = append(f.program, instructions...) }

// number returns the number of a system call, and whether this architecture has it.
func (f *filter) number(name string) (number uint32, known bool) {
	found, known := f.native.SyscallNames[name]
	if !known && name == "newfstatat" {
		// The table of arm64 uses the C library's name for it. On arm64, every stat(2) is this call.
		found, known = f.native.SyscallNames["fstatat"]
	}
	return uint32(found), known
}

// last returns the highest number of the system calls in the rules.
func (f *filter) last(rules []specs.LinuxSyscall) uint32 {
	var highest uint32
	for _, rule := range rules {
		for _, name := range rule.Names {
			if number, known := f.number(name); known {
				highest = max(highest, number)
			}
		}
	}
	return highest
}

// rule adds a rule for those of its system calls that this architecture has. The first rule that matches a call
// decides.
func (f *filter) rule(rule specs.LinuxSyscall) error {
	action, err := actionOf(rule)
	if err != nil {
		return err
	}
	var body []unix.SockFilter
	for _, argument := range rule.Args {
		test, err := condition(argument)
		if err != nil {
			return fmt.Errorf("the rule for %v: %w", rule.Names, err)
		}
		body = append(body, test...)
	}
	body = append(body, result(action))
	if len(rule.Args) > 0 {
		body = append(body, load(callAt)) // for the rules that come after it
	}
	for i := range body {
		for _, skip := range []*uint8{&body[i].Jt, &body[i].Jf} {
			if *skip == toEnd {
				*skip = uint8(len(body) - 2 - i)
			}
		}
	}
	for _, name := range rule.Names {
		if number, known := f.number(name); known {
			f.add(jump(unix.BPF_JEQ, number, 0, uint8(len(body))))
			f.add(body...)
		}
	}
	return nil
}

// toEnd stands for a jump to the last instruction of a rule, until the distance is known.
const toEnd = math.MaxUint8

// condition jumps to the rule's end unless an argument satisfies the rule.
func condition(argument specs.LinuxSeccompArg) ([]unix.SockFilter, error) {
	low := uint32(argumentsAt + 2*half*argument.Index)
	high := low + half
	switch argument.Op {
	case specs.OpEqualTo:
		return []unix.SockFilter{
			load(high), jump(unix.BPF_JEQ, uint32(argument.Value>>32), 0, toEnd),
			load(low), jump(unix.BPF_JEQ, uint32(argument.Value), 0, toEnd),
		}, nil
	case specs.OpMaskedEqual:
		return []unix.SockFilter{
			load(high), and(uint32(argument.Value >> 32)), jump(unix.BPF_JEQ, uint32(argument.ValueTwo>>32), 0, toEnd),
			load(low), and(uint32(argument.Value)), jump(unix.BPF_JEQ, uint32(argument.ValueTwo), 0, toEnd),
		}, nil
	case specs.OpLessThan:
		if argument.Value <= math.MaxUint32 {
			return []unix.SockFilter{
				load(high), jump(unix.BPF_JEQ, 0, 0, toEnd),
				load(low), jump(unix.BPF_JGE, uint32(argument.Value), toEnd, 0),
			}, nil
		}
	default:
	}
	return nil, fmt.Errorf("unsupported comparison %s with %d", argument.Op, argument.Value)
}

func actionOf(rule specs.LinuxSyscall) (uint32, error) {
	switch rule.Action {
	case specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case specs.ActErrno:
		if rule.ErrnoRet == nil {
			return refusal(unix.EPERM), nil
		}
		return refusal(unix.Errno(*rule.ErrnoRet)), nil
	default:
		return 0, fmt.Errorf("the rule for %v: unsupported action %s", rule.Names, rule.Action)
	}
}

// refusal makes a system call return an error number. 0 means success.
func refusal(number unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(number) }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func and(mask uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask}
}

func jump(test uint16, with uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: with, Jt: yes, Jf: no}
}

func result(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// load installs the filter in the kernel.
func (f *filter) load() error {
	if len(f.program) > unix.BPF_MAXINSNS {
		return errors.New("filtering system calls: the filter is too long for the kernel")
	}
	loaded := unix.SockFprog{Len: uint16(len(f.program)), Filter: &f.program[0]}
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&loaded)))
	if err != 0 {
		return fmt.Errorf("filtering system calls: %w", err)
	}
	return nil
}
