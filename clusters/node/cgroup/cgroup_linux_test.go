// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/filelock"
)

// hierarchy returns a folder of version 2 in which we may create groups, with or without controllers.
func hierarchy(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{mounted, filepath.Join(mounted, "unified")} {
		var system unix.Statfs_t
		if unix.Statfs(dir, &system) == nil && system.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	if os.Getuid() == 0 && os.Getenv("OPERATOR_LABS_CGROUPS") == "required" { // as in package nodetest
		t.Fatal("OPERATOR_LABS_CGROUPS=required, but root can change no cgroup v2 hierarchy")
	}
	t.Skip("this user can change no cgroup v2 hierarchy")
	return ""
}

func TestProcessStartsInProgramsGroup(t *testing.T) {
	base := hierarchy(t)
	g, err := Create(base, "test-born", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(g.Programs())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	cmd := exec.CommandContext(t.Context(), "cat", "/proc/self/cgroup")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	output, err := cmd.Output()
	if err != nil || !strings.Contains(string(output), "/"+prefix+"test-born/node\n") {
		t.Errorf("groups of the process = %q, %v", output, err)
	}
	if err := os.Mkdir(filepath.Join(g.Dir, "container"), 0o755); err != nil {
		t.Error(err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.Dir); !os.IsNotExist(err) {
		t.Errorf("the removed group still exists: %v", err)
	}
}

// Every user can open the folder that holds all groups, and lock it.
func TestCreateIgnoresLockOfAnotherUser(t *testing.T) {
	base := hierarchy(t)
	all, err := os.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if err := filelock.LockExclusive(all); err != nil {
		t.Fatal(err)
	}
	g, err := Create(base, "test-locked", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func TestCreateRemovesAbandonedGroups(t *testing.T) {
	base := hierarchy(t)
	left, err := Create(base, "test-left", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	left.held.Close() // as if the process that created it had ended
	unused, err := Create(base, "test-unused", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	used, err := Create(base, "test-used", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := errors.Join(used.Remove(), unused.Remove()); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(
		filepath.Join(used.Programs(), "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0,
	); err != nil {
		t.Fatal(err)
	}
	next, err := Create(base, "test-next", nil, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := next.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := os.Stat(left.Dir); !os.IsNotExist(err) {
		t.Errorf("the abandoned group still exists: %v", err)
	}
	for name, g := range map[string]*Group{"is used": used, "is about to be used": unused} {
		if _, err := os.Stat(g.Programs()); err != nil {
			t.Errorf("the group that %s was removed: %v", name, err)
		}
	}
}
