// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/process/pid"
	"lva.io/operators/clusters/process/pid/pidtest"
)

func init() {
	roles["machine"] = func() error { return runAsInit(untilForgotten) }
	roles["machine with a late guard"] = func() error { return runAsInit(untilOwnerIsDead) }
	roles["machine with a supervisor"] = func() error { return runAsInit(untilSupervisorIsAsked) }
	roles["machine with an older supervisor"] = func() error {
		return runAsInit(func() error {
			return errors.Join(emulateOlderKernel(), haveNoHandles(), untilSupervisorIsAsked())
		})
	}
	roles["machine with handles"] = func() error { return runAsInit(untilReused) }
	roles["machine that attends"] = func() error { return runAsInit(untilAttendedHasEnded) }
	roles["attending until asked"] = attendUntilAsked
	roles["owner of an ended group"] = ownEndedGroup
	roles["owner of a group"] = func() error {
		scope, err := NewScope(Options{})
		if err != nil {
			return err
		}
		p, err := scope.Start(Spec{Path: "/bin/sleep", Args: []string{"1000"}})
		if err != nil {
			return err
		}
		fmt.Println(p.PID(), scope.guard.Process.Pid)
		waitForLine()
		return nil
	}
}

// ownEndedGroup owns a process whose leader has ended. Another process keeps the output open, so that the owner still
// waits for it.
func ownEndedGroup() error {
	scope, err := NewScope(Options{})
	if err != nil {
		return err
	}
	var output bytes.Buffer
	const script = `setsid sh -c 'echo > left; exec sleep 1000' & until test -s left; do sleep 0.001; done`
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &output})
	if err != nil {
		return err
	}
	fmt.Println(p.PID(), scope.guard.Process.Pid)
	waitForLine()
	p.signal(syscall.SIGKILL)
	fmt.Println("signalled")
	waitForLine()
	return nil
}

// runAsInit is the first process of a PID namespace, in which it chooses the number of the next process.
func runAsInit(run func() error) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	return run()
}

// startOwner starts an owner of a scope, and returns the numbers of the owner's process and of the guard.
func startOwner(role string) (owner *actor, leader, guard int, err error) {
	owner = &actor{Cmd: exec.Command("/proc/self/exe")}
	owner.Env = append(os.Environ(), roleVariable+"="+role)
	if err = owner.connect(); err != nil {
		return nil, 0, 0, err
	}
	line, err := owner.output.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &leader, &guard)
	}
	return owner, leader, guard, err
}

// untilForgotten gives the number of an ended group to another process, while its owner waits for the output.
func untilForgotten() error {
	owner, leader, guard, err := startOwner("owner of an ended group")
	if err != nil {
		return err
	}
	wait(func() bool { return !exists(fmt.Sprint("/proc/", leader)) })
	unrelated, err := startAs(leader)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(owner.stdin); err != nil {
		return err
	}
	if _, err := owner.output.ReadString('\n'); err != nil {
		return err
	}
	unrelated.report("a signal")
	owner.kill()
	wait(func() bool { return !runs(guard) })
	unrelated.report("the guard")
	return nil
}

// untilOwnerIsDead gives the number of a group to another process when the owner is dead, and the guard has not noticed
// yet.
func untilOwnerIsDead() error {
	owner, leader, guard, err := startOwner("owner of a group")
	if err != nil {
		return err
	}
	wait(func() bool { return hasHandle(guard, leader) })
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		return err
	}
	owner.kill()
	if _, err := syscall.Wait4(leader, nil, 0, nil); err != nil { // its parent is dead, and we adopted it
		return err
	}
	unrelated, err := startAs(leader)
	if err != nil {
		return err
	}
	if err := syscall.Kill(guard, syscall.SIGCONT); err != nil {
		return err
	}
	wait(func() bool { return !runs(guard) })
	unrelated.report("the guard")
	return nil
}

// untilSupervisorIsAsked gives the number of a contained program to another process, while the supervisor still waits
// for the processes that the program left.
func untilSupervisorIsAsked() error {
	scope, err := NewScope(Options{withoutNamespaces: true})
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	const script = "setsid sleep 1000 & echo $$ $!; exec sleep 1000"
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: write, Contained: true})
	if err != nil {
		return err
	}
	var program, left int
	if _, err := fmt.Fscan(read, &program, &left); err != nil {
		return err
	}
	wait(func() bool { group, err := unix.Getpgid(left); return err == nil && group == left })
	// A traced process that was killed stays until its tracer has waited for it. The tracer is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(unix.PtraceSeize(left), syscall.Kill(program, syscall.SIGKILL)); err != nil {
		return err
	}
	wait(func() bool { return !exists(fmt.Sprint("/proc/", program)) })
	unrelated, err := startAs(program)
	if err != nil {
		return err
	}
	p.signal(syscall.SIGTERM)
	unrelated.report("the supervisor")
	return nil
}

// attendUntilAsked attends a program that has ended and left a process in a session of its own.
func attendUntilAsked() error {
	const script = `setsid sh -c 'echo $PPID > left; exec sleep 1000' & until test -s left; do sleep 0.001; done; cat left`
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		waitForLine()
		cancel()
	}()
	_, _, err := Attend(ctx, "/bin/sh", []string{"-c", script}, waitLimit)
	return err
}

// untilAttendedHasEnded gives the number of an attended program to another process, while the processes that the
// program left are waited for.
func untilAttendedHasEnded() error {
	attending := &actor{Cmd: exec.Command("/proc/self/exe")}
	attending.Env, attending.Dir = append(os.Environ(), roleVariable+"=attending until asked"), os.TempDir()
	if err := attending.connect(); err != nil {
		return err
	}
	var program int
	if _, err := fmt.Fscan(attending.output, &program); err != nil {
		return err
	}
	wait(func() bool { return !exists(fmt.Sprint("/proc/", program)) })
	unrelated, err := startAs(program)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(attending.stdin); err != nil {
		return err
	}
	unrelated.report("attending")
	return nil
}

// untilReused gives the numbers of processes that were found earlier to other processes.
func untilReused() error {
	found := exec.Command("/bin/sleep", "1000")
	if err := found.Start(); err != nil {
		return err
	}
	handle, ok := pid.Open(found.Process.Pid)
	if !ok {
		return errors.New("there is no handle")
	}
	defer handle.Close()
	if err := errors.Join(found.Process.Kill(), ignore[*exec.ExitError](found.Wait())); err != nil {
		return err
	}
	other, err := startAs(found.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Println("the handle was used:", handle.Signal(syscall.SIGKILL))
	other.report("the handle")

	// The shell waits for its child, and then continues.
	family := exec.Command("/bin/sh", "-c", "sleep 1000 & wait; exec sleep 1000")
	if err := family.Start(); err != nil {
		return err
	}
	var below []pid.Child
	wait(func() bool { below = pid.Below(family.Process.Pid); return len(below) == 1 })
	child := below[0]
	if !child.Signal(syscall.SIGKILL) {
		return errors.New("the child was not found")
	}
	wait(func() bool { return !exists(fmt.Sprint("/proc/", child.Number)) })
	if other, err = startAs(child.Number); err != nil {
		return err
	}
	fmt.Println("the child was found:", child.Signal(syscall.SIGKILL))
	other.report("the child")
	return nil
}

func ignore[Of error](err error) error {
	if _, is := errors.AsType[Of](err); is {
		return nil
	}
	return err
}

// hasHandle reports whether a process has a handle of another one.
func hasHandle(pid, other int) bool {
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	return slices.ContainsFunc(descriptors, func(descriptor string) bool {
		information, err := os.ReadFile(descriptor)
		return err == nil && strings.Contains(string(information), fmt.Sprintf("\nPid:\t%d\n", other))
	})
}

func wait(over func() bool) {
	for tick := time.NewTicker(time.Millisecond); !over(); {
		<-tick.C
	}
}

// unrelated is a process that belongs to no scope.
type unrelated chan error

// report reports whether the process was ended.
func (i unrelated) report(by string) {
	const limit = 300 * time.Millisecond // a signal takes much less
	select {
	case err := <-i:
		fmt.Println(by, "has ended another process:", err)
	case <-time.After(limit):
		fmt.Println(by, "has reached no other process")
	}
}

// startAs starts a process that has a number, in a group of its own.
func startAs(number int) (unrelated, error) {
	c, err := pidtest.StartAs(number, "/bin/sleep", "1000")
	if err != nil {
		return nil, err
	}
	ended := make(unrelated, 1)
	go func() { ended <- c.Wait() }()
	return ended, nil
}

func TestSignalsSpareGroupThatReusesTheID(t *testing.T) {
	t.Parallel()
	for role, signals := range map[string][]string{
		"machine": {"a signal", "the guard"}, "machine with a late guard": {"the guard"},
		"machine with a supervisor": {"the supervisor"}, "machine with an older supervisor": {"the supervisor"},
		"machine that attends": {"attending"},
	} {
		output := initOutput(t, role, len(signals))
		for i, by := range signals {
			if output[i] != by+" has reached no other process" {
				t.Errorf("%s: %s", role, output[i])
			}
		}
	}
}

func TestSignalsSpareProcessThatReusesTheID(t *testing.T) {
	t.Parallel()
	want := []string{
		"the handle was used: false", "the handle has reached no other process",
		"the child was found: false", "the child has reached no other process",
	}
	if output := initOutput(t, "machine with handles", len(want)); !slices.Equal(output, want) {
		t.Errorf("%q, want %q", output, want)
	}
}

// initOutput plays a role and returns the first lines of its output. It repeats this if a thread of the Go runtime
// got the number that was intended for a process.
func initOutput(t *testing.T, role string, lines int) (got []string) {
	t.Helper()
	const attempts = 20
	for attempt := 1; ; attempt++ {
		a := startInit(t, role)
		got = nil
		for len(got) < lines {
			line, err := a.output.ReadString('\n')
			if err != nil {
				t.Fatalf("%s ended after %q: %v", role, got, err)
			}
			if line = strings.TrimSpace(line); attempt < attempts && line == "error: "+pidtest.ErrTaken.Error() {
				break
			}
			got = append(got, line)
		}
		if len(got) == lines {
			return got
		}
	}
}

// startInit plays a role as the first process of a PID namespace.
func startInit(t *testing.T, role string) *actor {
	t.Helper()
	a := newActor(t, role, t.TempDir())
	for _, attributes := range newNamespaces() {
		if a.SysProcAttr = attributes; os.Getuid() == 0 || attributes.Cloneflags&syscall.CLONE_NEWUSER != 0 {
			break
		}
	}
	a.SysProcAttr.Pdeathsig = 0 // it ends when the test does
	a.start(t)
	return a
}
