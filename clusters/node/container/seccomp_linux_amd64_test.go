// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// x32Bit marks system calls of the x32 ABI (arch/x86/include/uapi/asm/unistd.h).
const x32Bit = 0x40000000

// systemCall returns the file of a program that makes one system call with up to four arguments, and exits with its
// error number.
func systemCall(t *testing.T, number uint32, arguments ...uint32) string {
	t.Helper()
	code := []byte{0xb8} // mov eax, number
	code = binary.LittleEndian.AppendUint32(code, number)
	for i, register := range [][]byte{{0xbf}, {0xbe}, {0xba}, {0x41, 0xba}} { // mov edi, esi, edx, r10d
		if i < len(arguments) {
			code = binary.LittleEndian.AppendUint32(append(code, register...), arguments[i])
		}
	}
	return machineCode(t, append(code, 0x0f, 0x05)) // syscall
}

// systemCall386 is like systemCall, but makes a system call of i386.
func systemCall386(t *testing.T, number uint32, argument uint32) string {
	t.Helper()
	code := binary.LittleEndian.AppendUint32([]byte{0xb8}, number)        // mov eax, number
	code = binary.LittleEndian.AppendUint32(append(code, 0xbb), argument) // mov ebx, argument
	return machineCode(t, append(code, 0xcd, 0x80))                       // int 0x80
}

// base is the address of the program in memory, and dataAt is the address of its data.
const (
	base   = 0x400000
	dataAt = base + 0x100
)

// machineCode returns the file of a program that runs the code, and exits with the negated value of register eax.
func machineCode(t *testing.T, code []byte) string {
	t.Helper()
	code = append(code, 0xf7, 0xd8, 0x89, 0xc7, 0xb8, unix.SYS_EXIT, 0, 0, 0, 0x0f, 0x05) // neg eax; mov edi, eax; exit
	var file bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	header.Entry = base + uint64(header.Ehsize+header.Phentsize)
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Align: 0x1000}
	// The data is a struct clone_args (clone(2)) for a child in a user namespace of its own.
	data := make([]byte, 64)
	binary.LittleEndian.PutUint64(data, unix.CLONE_NEWUSER)
	segment.Filesz = dataAt - base + uint64(len(data))
	segment.Memsz = segment.Filesz
	for _, part := range []any{header, segment, code} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	file.Write(make([]byte, dataAt-base-file.Len()))
	file.Write(data)
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, file.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// filtered runs a program under the filter, and returns its exit code.
func filtered(t *testing.T, program string, capabilities ...string) int {
	t.Helper()
	spec := container.Spec{Seccomp: true, Capabilities: append(capabilities, container.Unprivileged...)}
	return runProgram(t, program, spec)
}

// unfiltered runs a program without the filter, and returns its exit code.
func unfiltered(t *testing.T, program string) int {
	t.Helper()
	return runProgram(t, program, container.Spec{Capabilities: container.Unprivileged})
}

func runProgram(t *testing.T, program string, spec container.Spec) int {
	t.Helper()
	spec.Args, spec.Root.Dir = []string{"/program"}, t.TempDir()
	spec.Mounts = []container.Mount{{Source: program, Target: "/program", ReadOnly: true}}
	return run(t, spec, container.Joined{}).code
}

func TestFilterKillsI386Calls(t *testing.T) {
	const unshare386 = 310
	program := systemCall386(t, unshare386, unix.CLONE_NEWUSER)
	// Some kernels do not support i386, because CONFIG_IA32_EMULATION is off or ia32_emulation=0 was set at boot. On them,
	// int 0x80 ends a program with a signal, so there is nothing to test.
	if got := unfiltered(t, program); got == -1 {
		t.Log("this kernel does not support i386")
		return
	} else if got != 0 {
		t.Fatalf("without the filter, exit code = %d, want 0", got)
	}
	if got := filtered(t, program); got != -1 {
		t.Errorf("with the filter, exit code = %d, want the program killed by a signal", got)
	}
}

func TestFilterRejectsX32Calls(t *testing.T) {
	if got := filtered(t, systemCall(t, x32Bit|unix.SYS_GETPID)); got != int(unix.ENOSYS) {
		t.Errorf("exit code = %d, want ENOSYS (%d)", got, unix.ENOSYS)
	}
}

func TestFilterForbidsUserNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		program string
		want    unix.Errno
	}{
		"unshare": {systemCall(t, unix.SYS_UNSHARE, unix.CLONE_NEWUSER), unix.EPERM},
		"clone":   {systemCall(t, unix.SYS_CLONE, unix.CLONE_NEWUSER|uint32(unix.SIGCHLD), 0, 0, 0), unix.EPERM},
		// A filter can't read the memory that the argument points to. Programs fall back to clone on ENOSYS.
		"clone3": {systemCall(t, unix.SYS_CLONE3, dataAt, 64), unix.ENOSYS},
	} {
		if got := unfiltered(t, test.program); got == int(test.want) {
			t.Fatalf("%s fails with %s even without the filter", name, test.want)
		}
		if got := filtered(t, test.program); got != int(test.want) {
			t.Errorf("%s exited with %d, want %s (%d)", name, got, test.want, test.want)
		}
	}
}

func TestFilterAllowsOnlyListedCalls(t *testing.T) {
	const (
		unknownCall     = 0x3fff
		addrNoRandomize = 0x40000 // personality(2)
	)
	for name, test := range map[string]struct {
		program string
		want    unix.Errno
	}{
		"unlisted call":           {systemCall(t, unix.SYS_GET_MEMPOLICY, 0, 0, 0, 0), unix.EPERM},
		"listed call":             {systemCall(t, unix.SYS_UMASK, 0o77), -0o22 & 0xff},
		"call of a later kernel":  {systemCall(t, unknownCall), unix.ENOSYS},
		"unlisted address family": {systemCall(t, unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0), unix.EPERM},
		"listed address family":   {systemCall(t, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0), -3 & 0xff},
		"unlisted personality":    {systemCall(t, unix.SYS_PERSONALITY, addrNoRandomize), unix.EPERM},
		"personality query":       {systemCall(t, unix.SYS_PERSONALITY, 0xffffffff), 0},
	} {
		if got := filtered(t, test.program); got != int(test.want) {
			t.Errorf("%s: the program exited with %d, want %d", name, got, int(test.want))
		}
	}
}

func TestCapabilityAllowsItsCalls(t *testing.T) {
	for name, test := range map[string]struct {
		program    string
		capability string
	}{
		"unshare":       {systemCall(t, unix.SYS_UNSHARE, unix.CLONE_NEWUSER), "SYS_ADMIN"},
		"get_mempolicy": {systemCall(t, unix.SYS_GET_MEMPOLICY, 0, 0, 0, 0), "SYS_NICE"},
	} {
		if got := filtered(t, test.program, test.capability); got != 0 {
			t.Errorf("%s with %s exited with %d, want 0", name, test.capability, got)
		}
	}
}
