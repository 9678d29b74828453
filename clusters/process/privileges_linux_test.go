// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// We could not kill a setuid program that became another user's. Where we are not root, the filter for older kernels
// makes us give up privileges ourselves.
func TestContainedProgramGetsNoPrivileges(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"showing privileges", "showing privileges on an older kernel"} {
		if output := play(t, role, t.TempDir()).line(t); output[len(output)-1] != "1" {
			t.Errorf("%s: %q, want 1", role, output)
		}
	}
}

// showPrivileges makes a contained program print whether it can get new privileges.
func showPrivileges() error {
	scope, err := NewScope(Options{withoutNamespaces: true})
	if err != nil {
		return err
	}
	defer scope.Close()
	p, err := scope.Start(Spec{
		Path: "/bin/grep", Args: []string{"NoNewPrivs", "/proc/self/status"}, Stdout: os.Stdout, Contained: true,
	})
	if err != nil {
		return err
	}
	<-p.Done()
	return p.Err()
}

// needLandlockSignals skips a test on a kernel whose Landlock does not restrict signals.
func needLandlockSignals(t *testing.T) {
	t.Helper()
	const version, withSignals = 1, 6
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); int(abi) < withSignals {
		t.Skipf("this kernel's Landlock has version %d, and signals need %d", int(abi), withSignals)
	}
}

func TestContainedProgramCannotSignalOutside(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		if scope.options.withoutNamespaces {
			needLandlockSignals(t)
		}
		bystander := exec.Command("/bin/sleep", "1000")
		must(t, bystander.Start())
		t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
		outside := []int{bystander.Process.Pid, scope.guard.Process.Pid}
		p, output, dir := contain(t, scope, fmt.Sprintf(
			`kill -KILL $PPID; kill -STOP $PPID; kill -KILL %d; kill -KILL %d; kill -CONT $PPID`,
			outside[0], outside[1])+escapes+"sleep 1000")
		readLine(t, output)
		live := func(pids ...int) {
			t.Helper()
			for _, pid := range pids {
				if !runs(pid) {
					t.Errorf("process %d was killed", pid)
				}
			}
		}
		live(append(outside, p.PID())...)
		p.Kill()
		waitNoProcesses(t, output, dir)
		live(outside...) // the supervisor signals all that it can reach
	})
}

// A process whose limit of processor time is 0 is killed, and setting a limit is not a signal.
func TestContainedProgramCannotSetLimitsOutside(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{withoutNamespaces: true})
	victim := exec.Command("/bin/sleep", "1000")
	must(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	var output strings.Builder
	p, err := scope.Start(Spec{
		Path: "/proc/self/exe", Stdout: &output, Contained: true,
		Env: append(os.Environ(), roleVariable+"=limiting", fmt.Sprint(victimVariable, "=", victim.Process.Pid)),
	})
	must(t, err)
	<-p.Done()
	const want = "others: operation not permitted\nasking: <nil>\nits own: <nil>\n"
	if p.Err() != nil || output.String() != want {
		t.Errorf("error = %v, output = %q, want %q", p.Err(), output.String(), want)
	}
	if !runs(victim.Process.Pid) {
		t.Error("the other process was killed")
	}
}

// startInManySandboxes leaves one sandbox for a supervisor, and none for its program.
func startInManySandboxes() error {
	const most, scopeSignal = 16, 1 << 1
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	attributes := unix.LandlockRulesetAttr{Access_fs: 0, Access_net: 0, Scoped: scopeSignal}
	rules, _, failed := unix.Syscall(
		unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if failed != 0 {
		return failed
	}
	for range most - 1 {
		if _, _, failed := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); failed != 0 {
			return failed
		}
	}
	if err := os.Setenv(roleVariable, "starting in many sandboxes"); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

func startInDeepestSandbox() error {
	scope, err := NewScope(Options{withoutNamespaces: true})
	if err != nil {
		return err
	}
	_, err = scope.Start(Spec{Path: "/bin/true", Contained: true})
	fmt.Println("it said:", err)
	return scope.Close()
}

func TestProgramThatCouldKillSupervisorIsNotStarted(t *testing.T) {
	t.Parallel()
	needLandlockSignals(t)
	output := strings.Join(play(t, "in many sandboxes", t.TempDir()).line(t), " ")
	if !strings.HasPrefix(output, "it said: starting true: keeping it from ending its supervisor") ||
		!strings.HasSuffix(output, unix.E2BIG.Error()) {
		t.Error(output)
	}
}

// victimVariable is the number of the process that a process in the role of limiting limits.
const victimVariable = "OPERATOR_LABS_TEST_VICTIM"

func limit() error {
	victim, err := strconv.Atoi(os.Getenv(victimVariable))
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	fmt.Println("others:", unix.Prlimit(victim, unix.RLIMIT_CPU, &unix.Rlimit{}, nil))
	fmt.Println("asking:", unix.Prlimit(victim, unix.RLIMIT_CPU, nil, &limit))
	fmt.Println("its own:", unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	return nil
}
