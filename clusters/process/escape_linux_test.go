// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process/pid"
)

// escapes try everything that a process can do to survive. They leave the group, the session, the parents, the
// environment, the output and the name behind, ignore signals, and fork faster than one can look. All stay in the
// working folder, by which the tests find them. All but one hold the standard output open. Each writes a file alive-N,
// and the script continues when all of them live.
const escapes = `
live() { echo "trap '' HUP INT QUIT TERM; while :; do echo >alive-$1; sleep 0.1; done"; }
ln -s /bin/sh kworker
sh -c "$(live 1)" &
setsid sh -c "$(live 2)" &
(setsid sh -c "$(live 3)" &)
(env -i setsid sh -c "($(live 4)) &")
(env -i setsid ./kworker -c "($(live 5)) &" >/dev/null 2>&1)
# The chain ends by itself: a supervisor that fails must not take the machine with it.
chain() { [ $1 -lt 3000 ] && (chain $(($1 + 1)) &); }
chain 0 &
until [ -e alive-1 -a -e alive-2 -a -e alive-3 -a -e alive-4 -a -e alive-5 ]; do sleep 0.01; done
echo escaped
`

func init() {
	roles["containing"] = func() error { return containing(Options{}) }
	roles["reaping"] = func() error { return containing(Options{withoutNamespaces: true}) }
	roles["reaping on an older kernel"] = func() error {
		return errors.Join(emulateOlderKernel(), containing(Options{withoutNamespaces: true}))
	}
	roles["forbidding"] = func() error { return errors.Join(forbidNamespaces(), containing(Options{})) }
	roles["showing privileges"] = showPrivileges
	roles["showing privileges on an older kernel"] = func() error {
		return errors.Join(emulateOlderKernel(), showPrivileges())
	}
	roles["limiting"] = limit
	roles["in many sandboxes"] = startInManySandboxes
	roles["starting in many sandboxes"] = startInDeepestSandbox
	roles["from noexec"] = startFromNoexec
	for bombName, script := range bombs {
		roles[bombName+" in a namespace"] = func() error { return bomb(Options{}, script) }
		roles[bombName+" without namespaces"] = func() error { return bomb(Options{withoutNamespaces: true}, script) }
		roles[bombName+" on an older kernel"] = func() error {
			return errors.Join(emulateOlderKernel(), bomb(Options{withoutNamespaces: true}, script))
		}
	}
}

// ownerModes are the modes, and a reaper on an older kernel.
var ownerModes = append(slices.Clone(modes), mode{
	"on an older kernel", "reaping on an older kernel", Options{withoutNamespaces: true},
})

// containing starts a contained program that tries to get away, in TMPDIR.
func containing(options Options) error {
	scope, err := NewScope(options)
	if err != nil {
		return err
	}
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	p, err := scope.Start(Spec{
		Path: "/bin/sh", Args: []string{"-c", "read line <&3; exec 3>&-; " + escapes + "sleep 1000"}, Dir: os.TempDir(),
		Stdout: os.Stdout, Files: []*os.File{gate}, Contained: true,
	})
	if err != nil {
		return err
	}
	fmt.Println(scope.ID, scope.Dir, scope.guard.Process.Pid, p.PID())
	fmt.Fprintln(open)
	waitForLine()
	return nil
}

// waitOutputClosed waits until no process has the output open. A process that we fork at this moment may have it until
// it becomes another program.
func waitOutputClosed(t *testing.T, output io.Reader) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, output)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(waitLimit):
		t.Errorf("after %s a process still holds the output open", waitLimit)
	}
}

// waitNoProcesses waits until no process has the output open, and no process is in a folder.
func waitNoProcesses(t *testing.T, output io.Reader, dir string) {
	t.Helper()
	waitOutputClosed(t, output)
	eventually(t, "no process is in "+dir, func() bool { return len(processesIn(t, dir)) == 0 })
}

// wantEscaped makes sure that waitNoProcesses would find those that escaped, and the program.
func wantEscaped(t *testing.T, dir string) {
	t.Helper()
	const escaped = 5
	if found := processesIn(t, dir); len(found) <= escaped {
		t.Errorf("only the processes %v run in %s", found, dir)
	}
}

// processesIn returns the numbers of the processes whose working folder is dir. A dead process has none.
func processesIn(t *testing.T, dir string) (numbers []int) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	must(t, err)
	for _, number := range pid.All() {
		if folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", number)); err == nil && folder == dir {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

func TestContainedProgramLeavesNoProcesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		when string
		end  func(*Scope, *Process)
	}{
		{"it ends", func(_ *Scope, p *Process) { <-p.Done() }},
		{"it is killed", func(_ *Scope, p *Process) { p.Kill() }},
		{"it is asked to end", func(_ *Scope, p *Process) { p.Stop(waitLimit) }},
		{"its scope is closed", func(s *Scope, _ *Process) { _ = s.Close() }},
		{"its supervisor is asked to end", func(_ *Scope, p *Process) {
			_ = syscall.Kill(p.PID(), syscall.SIGQUIT)
			<-p.Done()
		}},
	} {
		t.Run(test.when, func(t *testing.T) {
			t.Parallel()
			inEachMode(t, func(t *testing.T, scope *Scope) {
				t.Helper()
				script := escapes
				if test.when != "it ends" {
					script += "sleep 1000"
				}
				p, output, dir := contain(t, scope, script)
				if got := readLine(t, output)[0]; got != "escaped" {
					t.Fatalf("the output is %q", got)
				}
				if test.when != "it ends" {
					wantEscaped(t, dir)
				}
				test.end(scope, p)
				waitNoProcesses(t, output, dir)
			})
		})
	}
}

// The test kills processes with -9, together with the owner or without it. Without a namespace it must not kill the
// supervisor. The program can't kill it either: see TestContainedProgramCannotSignalOutside.
func TestContainedProgramIsCleanedUpAfterSIGKILL(t *testing.T) {
	t.Parallel()
	for _, mode := range ownerModes {
		for _, test := range []struct {
			name string
			kill func(owner, guard, supervisor int) []int
		}{
			{"the owner", func(owner, _, _ int) []int { return []int{owner} }},
			{"the guard, then the owner", func(owner, guard, _ int) []int { return []int{guard, owner} }},
			{"the supervisor", func(_, _, supervisor int) []int { return []int{supervisor} }},
			{"the owner's group", func(owner, _, _ int) []int { return []int{-owner} }},
		} {
			if test.name == "the supervisor" && mode.options.withoutNamespaces {
				continue
			}
			t.Run(mode.name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				if !mode.options.withoutNamespaces {
					needNamespaces(t)
				}
				dir := t.TempDir()
				owner := play(t, mode.role, dir)
				got := owner.line(t)
				guard, supervisor := number(t, got[2]), number(t, got[3])
				if got := owner.line(t)[0]; got != "escaped" {
					t.Fatalf("the output is %q", got)
				}
				wantEscaped(t, dir)
				for _, pid := range test.kill(owner.Process.Pid, guard, supervisor) {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
				if test.name == "the supervisor" {
					eventuallyEnded(t, supervisor)
					owner.next(t) // it would hold the output open
				}
				waitNoProcesses(t, owner.output, dir)
			})
		}
	}
}

// bombs are scripts that fork for as long as they can. They report it when they can't.
var bombs = map[string]string{
	"bombing": "bomb() { bomb & bomb & wait; }; bomb",
	// All but the program end at once, so that those that are found have ended when they are signalled.
	"bombing and leaving": "bomb() { bomb & bomb & }; bomb; sleep 1000",
	// Each begins a session, and so a group.
	"bombing in sessions": `export BOMB='setsid bash -c "$BOMB" & setsid bash -c "$BOMB" & wait'; eval "$BOMB"`,
}

// bomb lets a contained program fork for as long as its user may have another process. The supervisor can't have
// another either, and no thread.
func bomb(options Options, script string) error {
	scope, err := NewScope(options)
	if err != nil {
		return err
	}
	have, err := filepath.Glob("/proc/[0-9]*/task/*")
	if err != nil {
		return err
	}
	const more = 300
	var ours unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &ours); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{
		Cur: min(ours.Cur, uint64(len(have)+more)), Max: ours.Max,
	}); err != nil {
		return err
	}
	_, err = scope.Start(Spec{
		Path: "/bin/bash", Args: []string{"-c", script}, Stdout: os.Stdout, Stderr: os.Stdout, Contained: true,
		Env: append(os.Environ(), "GOMAXPROCS=64", "GOGC=1"), // the supervisor could use many threads
	})
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NPROC, &ours)); err != nil {
		return err
	}
	waitForLine()
	return nil
}

func TestContainedForkBombIsKilled(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("nothing bounds what root forks: TestUnprivilegedUserCanContainPrograms does this")
	}
	for _, mode := range ownerModes { // one after the other, because they would take processes from each other
		for name := range bombs {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				owner := play(t, name+" "+mode.name, t.TempDir())
				for {
					got, err := owner.output.ReadString('\n')
					if err != nil {
						t.Fatalf("the output is %q: %v", got, err)
					}
					if strings.Contains(got, "Resource temporarily unavailable") {
						break
					}
				}
				must(t, owner.Process.Kill())
				waitOutputClosed(t, owner.output)
			})
		}
	}
}

func TestContainedProgramEndsIfOwnerDiesDuringStart(t *testing.T) {
	t.Parallel()
	for _, mode := range ownerModes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			for range 15 {
				dir := t.TempDir()
				owner := play(t, mode.role, dir)
				// The kill comes before, while or after the guard, the supervisor and the program start.
				select {
				case <-time.After(rand.N(40 * time.Millisecond)):
				case <-t.Context().Done():
				}
				if err := owner.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				waitOutputClosed(t, owner.output)
			}
		})
	}
}

// A kernel, a container or an administrator may forbid namespaces. In a user namespace of our own, we are that
// administrator.
func TestForbiddenNamespacesFallBackToReaper(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := t.TempDir()
	owner := newActor(t, "forbidding", dir)
	owner.SysProcAttr = inUserNamespace(0)
	owner.start(t)
	got := owner.line(t)
	arguments, err := os.ReadFile("/proc/" + got[3] + "/cmdline")
	if name, _, _ := strings.Cut(string(arguments), "\x00"); err != nil || name != "operator-labs-reaper" {
		t.Errorf("name of the supervisor = %q (%v)", name, err)
	}
	if got := owner.line(t)[0]; got != "escaped" {
		t.Fatalf("the output is %q", got)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitNoProcesses(t, owner.output, dir)
}

// forbidNamespaces takes effect in the user namespace in which it runs.
func forbidNamespaces() error {
	for _, kind := range []string{"pid", "user"} {
		if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// With a user namespace, an ordinary user may do what root may do.
func TestUnprivilegedUserCanContainPrograms(t *testing.T) {
	longtest.Proof(t)
	t.Parallel()
	const nobody = 65534
	if os.Getuid() != 0 {
		t.Skip("we are one: all the other tests are about this")
	}
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o711)) // it lies in a folder that no other user can enter
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skipf("we are root of one user only: %v", err)
	}
	var output strings.Builder
	const run = "-test.run=Contained|Supervisor|GrandchildHolding|OutputIsFinal|EndedProcess|Forbidden"
	tests := exec.Command("/proc/self/exe", run, "-test.v", "-test.parallel=16")
	tests.Env, tests.Dir = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir), dir
	tests.Stdout, tests.Stderr = &output, &output
	tests.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := tests.Run(); err != nil ||
		!strings.Contains(output.String(), "--- PASS: TestContainedProgramLeavesNoProcesses ") {
		got := output.String()
		if _, failed, ok := strings.Cut(got, "_test.go:"); ok {
			got = failed[:min(len(failed), 2000)]
		}
		t.Errorf("as an ordinary user: %v\n%s", err, got)
	}
}
