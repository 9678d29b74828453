// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes this test binary play a role in a test instead of running the tests: the owner of a scope that is
// killed, or a command that ends with the one that started it.
const roleVariable = "OPERATOR_LABS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles print what they have done in lines of standard output, and take the next step when a line comes on standard
// input.
var roles = map[string]func() error{
	"owner":     own,
	"panicking": func() error { return errors.Join(own(), panicNow()) },
	"releasing": releaseAndExit,
	"make":      func() error { return startCommandThatEndsWithUs("command") },
	"removing":  removeWithFewDescriptors,
	"command": func() error {
		EndWithParent()
		fmt.Println(os.Getpid())
		waitForLine()
		return nil
	},
}

// family starts a process, one in its group and one that leaves it, and prints their numbers.
const family = `sleep 1000 & echo $$ $!; setsid sh -c 'echo $$; exec sleep 1000' & wait`

func own() error {
	scope, err := NewScope(Options{})
	if err != nil {
		return err
	}
	fmt.Println(scope.ID, scope.Dir, scope.guard.Process.Pid)
	if _, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", family}, Stdout: os.Stdout}); err != nil {
		return err
	}
	waitForLine()
	return nil
}

func panicNow() error { panic("as a test does that has a mistake") }

// releaseAndExit has its folder in TMPDIR, because the folder must stay.
func releaseAndExit() error {
	scope, err := NewScope(Options{Dir: os.TempDir(), Detachable: true})
	if err != nil {
		return err
	}
	fmt.Println(scope.ID, scope.Dir, scope.guard.Process.Pid)
	if _, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", family}, Stdout: os.Stdout}); err != nil {
		return err
	}
	waitForLine()
	scope.Release()
	fmt.Println("released")
	waitForLine()
	return nil
}

func startCommandThatEndsWithUs(role string) error {
	executable, err := executable()
	if err != nil {
		return err
	}
	// The child's standard input never ends. If it were the parent's, the child would end with the parent.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	command := exec.Command(executable)
	command.Env, command.Stdin, command.Stdout = append(os.Environ(), roleVariable+"="+role), read, os.Stdout
	command.ExtraFiles = []*os.File{write}
	if err := command.Start(); err != nil {
		return err
	}
	waitForLine()
	return nil
}

func waitForLine() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

// actor is this test binary in one of the roles.
type actor struct {
	*exec.Cmd
	output *bufio.Reader
	stdin  io.Writer
}

// play starts the test binary in a role, with a TMPDIR of its own.
func play(t *testing.T, role, tmp string) *actor {
	t.Helper()
	a := newActor(t, role, tmp)
	a.start(t)
	return a
}

func newActor(t *testing.T, role, tmp string) *actor {
	t.Helper()
	executable, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{Cmd: exec.Command(executable)}
	a.Env = append(os.Environ(), roleVariable+"="+role, "TMPDIR="+tmp)
	a.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return a
}

func (a *actor) start(t *testing.T) {
	t.Helper()
	if err := a.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
}

// connect starts the actor with pipes for its input and output.
func (a *actor) connect() error {
	stdout, err := a.StdoutPipe()
	if err != nil {
		return err
	}
	if a.stdin, err = a.StdinPipe(); err != nil {
		return err
	}
	a.output = bufio.NewReader(stdout)
	return a.Start()
}

// line returns the words of the next line that the actor prints.
func (a *actor) line(t *testing.T) []string {
	t.Helper()
	line, err := a.output.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("the actor printed %q (%v)", line, err)
	}
	return strings.Fields(line)
}

func (a *actor) next(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(a.stdin); err != nil {
		t.Fatal(err)
	}
}

func (a *actor) kill() {
	_ = a.Process.Kill()
	_ = a.Wait()
}

func number(t *testing.T, word string) int {
	t.Helper()
	pid, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// runs reports whether a process runs. A process that has ended, but whose parent has not waited for it yet, does not
// run once the last of its threads has ended.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !hasProc()
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X") || len(threads) > 1
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// waitLimit is how long tests wait for what takes milliseconds on a quiet machine. It only keeps a test from hanging.
const waitLimit = 2 * time.Minute

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(waitLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", waitLimit, what)
		}
	}
}

func eventuallyEnded(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !runs(pid) })
	}
}
