// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// defaultACL is the attribute of a folder that limits the permissions of new files in it, instead of the umask
// (acl(5)).
const defaultACL = "system.posix_acl_default"

// ownerAlone is a default ACL that gives permissions only to the owner: version 2, and the entries user::rwx,
// group::--- and other::---, in the format of linux/posix_acl_xattr.h.
var ownerAlone = []byte{
	2, 0, 0, 0,
	1, 0, 7, 0, math.MaxUint8, math.MaxUint8, math.MaxUint8, math.MaxUint8,
	4, 0, 0, 0, math.MaxUint8, math.MaxUint8, math.MaxUint8, math.MaxUint8,
	32, 0, 0, 0, math.MaxUint8, math.MaxUint8, math.MaxUint8, math.MaxUint8,
}

// restrictNewFiles denies group and others all permissions for new files in the folder, until widen is called. It
// imitates a umask, because no process can change the umask of another one. It reports false if that is not possible.
func (n *node) restrictNewFiles() (widen func() error, possible bool) {
	change := func(do func(folder int) error) error {
		return n.within(func(root *os.Root) error {
			folder, err := root.Open(".")
			if err != nil {
				return err
			}
			defer folder.Close()
			return do(int(folder.Fd()))
		})
	}
	err := change(func(folder int) error { return unix.Fsetxattr(folder, defaultACL, ownerAlone, 0) })
	return func() error {
		return change(func(folder int) error { return unix.Fremovexattr(folder, defaultACL) })
	}, err == nil
}

// limitFiles makes writes of the operator beyond a file size, in bytes, fail with EFBIG until lift is called, as they
// fail with ENOSPC on a full disk. It reports false if that is not possible.
func (n *node) limitFiles(size uint64) (lift func() error, possible bool) {
	before := map[int]unix.Rlimit{}
	lift = func() (err error) {
		for pid, limit := range before {
			// The process may have ended.
			if failure := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); !errors.Is(failure, unix.ESRCH) {
				err = errors.Join(err, failure)
			}
		}
		return err
	}
	for _, pid := range n.operators() {
		var limit unix.Rlimit
		err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit)
		if err == nil {
			err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(size, limit.Cur), Max: limit.Max}, nil)
		}
		if err != nil {
			_ = lift() // a remaining limit ends with its process
			return nil, false
		}
		before[pid] = limit
	}
	return lift, len(before) > 0
}

// operators returns the processes that were started with our file: the operator, and its supervisor if it has one.
func (n *node) operators() (pids []int) {
	entries, _ := os.ReadDir("/proc") // without it, nothing is possible
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		arguments, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && slices.Contains(strings.Split(string(arguments), "\x00"), fileFlag+n.path()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestNewFilesAreRestricted checks that a program that creates a file with mode 0644 gets mode 0600 while new files are
// restricted.
func TestNewFilesAreRestricted(t *testing.T) {
	n := &node{folder: t.TempDir()}
	widen, possible := n.restrictNewFiles()
	if !possible {
		t.Skip("the file system of temporary folders has no ACLs")
	}
	for i, want := range []os.FileMode{0o600, fileMode} {
		if i > 0 {
			if err := widen(); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.RemoveAll(n.path()), os.WriteFile(n.path(), nil, fileMode)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(n.path())
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got&^0o044 != 0o600 || got&0o044 != 0 && i == 0 {
			t.Errorf("the mode of a new file is %s, want %s", got, want)
		}
	}
}

// TestFilesAreLimited checks that a program whose arguments contain our file can't write a file larger than the limit,
// until the limit is lifted.
func TestFilesAreLimited(t *testing.T) {
	n := &node{folder: t.TempDir()}
	// The script writes 2 KiB into the file for each line that it reads, and prints whether that succeeded.
	const script = `trap "" XFSZ; while read -r line; do head -c 2048 /dev/zero >"$0/` +
		fileName + `" 2>/dev/null && echo written || echo failed; done`
	program := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, n.folder, fileFlag+n.path())
	orders, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	write := func(want string) {
		t.Helper()
		answer := make([]byte, len(want)+1)
		if _, err := orders.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.Read(answer); err != nil || strings.TrimSpace(string(answer)) != want {
			t.Errorf("a file of 2 KiB was %q (%v), want %q", answer, err, want)
		}
	}
	write("written")
	lift, possible := n.limitFiles(1 << 10)
	if !possible {
		t.Fatal("files of a process of our own can't be limited")
	}
	write("failed")
	if err := lift(); err != nil {
		t.Error(err)
	}
	write("written")
	if err := errors.Join(orders.Close(), program.Wait()); err != nil {
		t.Error(err)
	}
}
