// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process is between two programs for too short a time to catch it there. The test covers the states that must not be
// mistaken for that one.
func TestOnlyProcessDuringExecIsUnsettled(t *testing.T) {
	t.Parallel()
	bare := exec.Command("/bin/sleep", "1000")
	bare.Env = []string{}
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Process.Kill(); _ = bare.Wait() })
	dead := exec.Command("/bin/true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dead.Wait() })
	eventually(t, "the process is dead and not reaped", func() bool { return !runs(dead.Process.Pid) })
	eventually(t, "the other has its program", func() bool {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", bare.Process.Pid))
		return err == nil && filepath.Base(program) == "sleep" && !unsettled(fmt.Sprintf("/proc/%d", bare.Process.Pid), true)
	})
	for name, process := range map[string]int{
		"ours": os.Getpid(), "without an environment": bare.Process.Pid,
		"dead": dead.Process.Pid, "of the kernel": 2, "nobody": 1 << 30,
	} {
		if unsettled(fmt.Sprintf("/proc/%d", process), true) {
			t.Errorf("a process that is %s counts as one between two programs", name)
		}
	}
}

func TestThreadWithoutMemoryIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stat := func(state string, flags, environmentEnd int) string {
		line := "77 (a (b) c) " + state
		for field := 4; field <= 52; field++ {
			switch field {
			case 9:
				line += fmt.Sprint(" ", flags)
			case 51:
				line += fmt.Sprint(" ", environmentEnd)
			default:
				line += " 1"
			}
		}
		return line + "\n"
	}
	for _, test := range []struct {
		stat           string
		readable, want bool
	}{
		{stat("R", 0x400000, 0), true, true},
		{stat("D", 0x400000, 0), true, true},
		{stat("D", 0x400000, 0), false, false}, // another user's
		{stat("S", 0x400004, 0), false, true},  // it ends
		{stat("S", 0x400000, 4096), true, false},
		{stat("I", 0x208040, 0), true, false},
		{stat("Z", 0x400004, 0), false, false},
		{"", true, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(test.stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := withoutMemory(dir, test.readable); got != test.want {
			t.Errorf("got %v for %q (readable: %v), want %v", got, test.stat, test.readable, test.want)
		}
	}
}

// The first process of a PID namespace ends only after all others in it. Until then it has no environment, and its
// first thread may have ended.
func TestDyingNamespaceIsNotMistakenForGone(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip(err)
	}
	for _, threads := range []string{"one thread", "many threads"} {
		t.Run(threads, func(t *testing.T) {
			t.Parallel()
			first := newActor(t, "command", t.TempDir())
			if threads == "one thread" {
				first.Cmd = exec.Command("/bin/cat")
			}
			id := "scope-dying-" + strings.ReplaceAll(threads, " ", "-") + fmt.Sprint(os.Getpid())
			first.Env = append(first.Env, markerVariable+"="+id)
			first.SysProcAttr = inUserNamespace(unix.CLONE_NEWPID)
			first.start(t)
			process := fmt.Sprintf("/proc/%d", first.Process.Pid)
			// Another process there has a parent outside, which does not wait for it for now.
			parent := exec.Command(nsenter, "--preserve-credentials", "--user", "--pid",
				"--target", fmt.Sprint(first.Process.Pid), "sleep", "1000")
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = parent.Process.Kill()
				_ = parent.Wait()
			})
			eventually(t, "the other process is in the namespace", func() bool {
				children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent.Process.Pid))
				name, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(children)) + "/comm")
				return string(name) == "sleep\n"
			})
			if err := parent.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the parent has stopped", func() bool {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent.Process.Pid))
				_, state, _ := strings.Cut(string(stat), ") ")
				return strings.HasPrefix(state, "T")
			})
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first process has no environment any more", func() bool {
				environment, _ := os.ReadFile(filepath.Join(process, "environ"))
				return len(environment) == 0
			})
			if !runs(first.Process.Pid) {
				t.Fatal("the first process did not wait for the other")
			}
			// On a busy machine its patience may be over before the process has ended.
			gaveUpEarly := make(chan bool, 1)
			go func() {
				began := time.Now()
				KillMarked(id)
				gaveUpEarly <- time.Since(began) < patienceForOthers && runs(first.Process.Pid)
			}()
			select {
			case early := <-gaveUpEarly:
				gaveUpEarly <- early
			case <-time.After(100 * time.Millisecond): // it would have returned long ago
			}
			if err := parent.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if <-gaveUpEarly {
				t.Error("KillMarked did not wait for the first process of a namespace")
			}
			eventuallyEnded(t, first.Process.Pid)
		})
	}
}
