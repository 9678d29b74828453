// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// On another architecture, the same numbers mean other system calls, so a filter must not mistake them for its own.
func TestContainedProgramCannotSetLimitsByOtherABI(t *testing.T) {
	t.Parallel()
	const (
		rmdir = 84 // of no file
		x32   = 0x40000000
	)
	intoI386, intoKernel := []byte{0xcd, 0x80}, []byte{0x0f, 0x05} // int 0x80; syscall
	for _, test := range []struct {
		name   string
		number uint32
		enter  []byte
		want   string
	}{
		{"its own", rmdir, intoKernel, "exit status 14"},   // EFAULT
		{"x32", rmdir | x32, intoKernel, "exit status 38"}, // ENOSYS
		{"i386", rmdir, intoI386, "signal: bad system call"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			scope, program := newScope(t, Options{withoutNamespaces: true}), systemCall(t, test.number, test.enter)
			var p *Process
			// A process that another test forked at that moment may have the file open for writing until it becomes a program.
			eventually(t, "the program can be started", func() (started bool) {
				var err error
				if p, err = scope.Start(Spec{Path: program, Contained: true}); !errors.Is(err, unix.ETXTBSY) {
					must(t, err)
				}
				return err == nil
			})
			<-p.Done()
			if test.name == "i386" && p.Err() != nil && p.Err().Error() == "signal: segmentation fault" {
				t.Skip("this kernel has no calls of i386")
			}
			if p.Err() == nil || p.Err().Error() != test.want {
				t.Errorf("error = %v, want %s", p.Err(), test.want)
			}
		})
	}
}

// systemCall is the file of a program that makes one system call, and exits with its error number.
func systemCall(t *testing.T, number uint32, enter []byte) string {
	t.Helper()
	code := binary.LittleEndian.AppendUint32([]byte{0xb8}, number) // mov eax, number
	code = append(code, enter...)
	code = append(code, 0xf7, 0xd8, 0x89, 0xc7, 0xb8, unix.SYS_EXIT, 0, 0, 0, 0x0f, 0x05) // neg eax; mov edi, eax; exit
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	const base = 0x400000
	size := uint64(header.Ehsize+header.Phentsize) + uint64(len(code))
	header.Entry = base + size - uint64(len(code))
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Filesz: size, Memsz: size, Align: 0x1000,
	}
	var file bytes.Buffer
	for _, part := range []any{header, segment, code} {
		must(t, binary.Write(&file, binary.LittleEndian, part))
	}
	path := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(path, file.Bytes(), 0o755))
	return path
}
