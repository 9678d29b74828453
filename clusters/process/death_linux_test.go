// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The processes of these tests leave their group. Only on Linux can we find them again.

func init() {
	roles["make that dies early"] = func() error { return startCommandThatEndsWithUs("late command") }
	roles["late command"] = func() error {
		parent := os.Getppid()
		fmt.Println(os.Getpid())
		for tick := time.Tick(time.Millisecond); os.Getppid() == parent; {
			<-tick
		}
		EndWithParent()
		waitForLine()
		return nil
	}
	roles["adopter"] = adopt
}

// adopt adopts orphans in the session that it shares with them, as the first process of a container does. It starts a
// make that dies early, and prints the numbers of the make and of its command.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	executable, err := executable()
	if err != nil {
		return err
	}
	command := exec.Command(executable)
	command.Env = append(os.Environ(), roleVariable+"=make that dies early")
	if _, err = command.StdinPipe(); err != nil {
		return err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Println(command.Process.Pid, line)
	waitForLine()
	return nil
}

// processTree is an owner in a process of its own, and what it started.
type processTree struct {
	owner                  *actor
	id, dir                string
	guard                  int
	leader, child, escapee int
}

func (h *processTree) all() []int { return []int{h.leader, h.child, h.escapee} }

func startProcessTree(t *testing.T, role, tmp string) *processTree {
	t.Helper()
	h := &processTree{owner: play(t, role, tmp)}
	scope := h.owner.line(t)
	h.id, h.dir, h.guard = scope[0], scope[1], number(t, scope[2])
	t.Cleanup(func() { KillMarked(h.id) })
	group := h.owner.line(t)
	h.leader, h.child, h.escapee = number(t, group[0]), number(t, group[1]), number(t, h.owner.line(t)[0])
	for _, pid := range append(h.all(), h.guard) {
		if !runs(pid) {
			t.Fatalf("process %d does not run", pid)
		}
	}
	return h
}

func TestCloseEndsProcessOutsideItsGroup(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, output := startShell(t, scope, family)
	group := readLine(t, output)
	escapee := number(t, readLine(t, output)[0])
	if group, err := unix.Getpgid(escapee); err != nil || group == p.PID() {
		t.Fatalf("the process is in group %d (%v): it has not left", group, err)
	}
	if err := scope.Close(); err != nil {
		t.Fatal(err)
	}
	eventuallyEnded(t, p.PID(), number(t, group[1]), escapee)
}

func TestProcessesEndWithTheirOwner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, role string
		die        func(*testing.T, *processTree)
	}{
		{"kill -9", "owner", func(t *testing.T, h *processTree) {
			t.Helper()
			if err := h.owner.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a signal that it does not handle", "owner", func(t *testing.T, h *processTree) {
			t.Helper()
			if err := h.owner.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}},
		{"exit without Close", "owner", func(t *testing.T, h *processTree) { t.Helper(); h.owner.next(t) }},
		{"panic", "panicking", func(t *testing.T, h *processTree) { t.Helper(); h.owner.next(t) }},
		{"kill -9 while what it started is to be released", "releasing", func(t *testing.T, h *processTree) {
			t.Helper()
			if err := h.owner.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			h := startProcessTree(t, test.role, tmp)
			test.die(t, h)
			eventuallyEnded(t, append(h.all(), h.guard)...)
			if h.dir != tmp && exists(h.dir) {
				t.Error("the folder still exists, although the guard has ended")
			}
		})
	}
}

func TestGuardSurvivesKillOfOwnersGroup(t *testing.T) {
	t.Parallel()
	h := startProcessTree(t, "owner", t.TempDir())
	eventually(t, "the guard has begun to ignore signals", func() bool { return ignores(t, h.guard, syscall.SIGQUIT) })
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(h.guard, signal); err != nil {
			t.Fatal(err)
		}
	}
	if session, err := unix.Getsid(h.guard); err != nil || session != h.guard {
		t.Errorf("the guard is in session %d (%v), want one of its own", session, err)
	}
	h.owner.kill()
	eventuallyEnded(t, append(h.all(), h.guard)...)
	if exists(h.dir) {
		t.Error("the folder still exists")
	}
}

func ignores(t *testing.T, pid int, signal syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	bits, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bits&(1<<(signal-1)) != 0
}

func TestNextScopeSweepsAfterOwnerAndGuardDied(t *testing.T) {
	tmp := t.TempDir()
	h := startProcessTree(t, "owner", tmp)
	if err := syscall.Kill(h.guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.owner.kill()
	eventuallyEnded(t, h.guard, h.leader) // the kernel ends the leader with its parent
	if !runs(h.child) || !runs(h.escapee) || !exists(h.dir) {
		t.Fatal("nothing is left to sweep")
	}
	t.Setenv("TMPDIR", tmp)
	newScope(t, Options{})
	eventuallyEnded(t, h.all()...)
	if exists(h.dir) {
		t.Error("the folder still exists")
	}
}

func TestSweepKeepsOwnedScopes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := func(name string) string {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	owned, beingMade, other := folder("scope-owned"), folder(".new-scope-being-made"), folder("notes")
	lock, err := openFolder(owned)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	neverFinished := folder(".new-scope-never-finished")
	if err := os.Chtimes(neverFinished, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	newScope(t, Options{})
	for _, dir := range []string{owned, beingMade, other} {
		if !exists(dir) {
			t.Errorf("%s was removed", dir)
		}
	}
	if exists(neverFinished) {
		t.Error("a folder that has been unfinished for an hour still exists")
	}
	lock.Close()
	newScope(t, Options{})
	if exists(owned) {
		t.Error("the folder still exists, although no process holds its lock")
	}
}

func TestReleasedProcessesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	h := startProcessTree(t, "releasing", t.TempDir())
	h.owner.next(t)
	if output := h.owner.line(t)[0]; output != "released" {
		t.Fatalf("the owner printed %q", output)
	}
	h.owner.kill()
	eventuallyEnded(t, h.guard)
	for _, pid := range h.all() {
		if !runs(pid) {
			t.Errorf("process %d has ended", pid)
		}
		// For a moment in the middle of an exec, a process has no environment.
		eventually(t, fmt.Sprintf("process %d belongs to its scope", pid), func() bool { return Belongs(pid, h.id) })
		if Belongs(pid, "scope-another") || Belongs(os.Getpid(), h.id) {
			t.Error("the process belongs to another scope")
		}
	}
	KillMarked(h.id)
	eventuallyEnded(t, h.all()...)
	if Belongs(h.leader, h.id) {
		t.Error("an ended process belongs to the scope")
	}
}

func TestCommandEndsWithItsParent(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"make", "make that dies early"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			parent := play(t, role, t.TempDir())
			command := number(t, parent.line(t)[0])
			t.Cleanup(func() { _ = syscall.Kill(command, syscall.SIGKILL) })
			if !runs(command) {
				t.Fatal("the command does not run")
			}
			parent.kill()
			eventuallyEnded(t, command)
		})
	}
}

func TestAdoptedCommandEnds(t *testing.T) {
	t.Parallel()
	output := play(t, "adopter", t.TempDir()).line(t)
	parent, command := number(t, output[0]), number(t, output[1])
	t.Cleanup(func() { _ = syscall.Kill(command, syscall.SIGKILL) })
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventuallyEnded(t, command)
}

func TestBackgroundProcessIsNice(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", "sleep 1000"}, Background: true})
	if err != nil {
		t.Fatal(err)
	}
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, p.PID())
	if want := 20 - min(niceness()+backgroundNice, greatestNice); err != nil || priority != want {
		t.Errorf("the kernel's priority is %d (%v), want %d", priority, err, want)
	}
}
