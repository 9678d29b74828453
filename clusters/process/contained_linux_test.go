// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mode is a way to contain a program.
type mode struct {
	name    string
	role    string // of an owner
	options Options
}

var modes = []mode{
	{"in a namespace", "containing", Options{}},
	{"without namespaces", "reaping", Options{withoutNamespaces: true}},
}

func inEachMode(t *testing.T, test func(*testing.T, *Scope)) {
	t.Helper()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			if !mode.options.withoutNamespaces {
				needNamespaces(t)
			}
			test(t, newScope(t, mode.options))
		})
	}
}

// namespacesVariable is "required" in CI.
const namespacesVariable = "OPERATOR_LABS_NAMESPACES"

// needNamespaces skips a test of namespaces where none can be created.
func needNamespaces(t *testing.T) {
	t.Helper()
	p, err := newScope(t, Options{}).Start(Spec{Path: "/bin/true", Contained: true})
	must(t, err)
	switch {
	case p.supervision.endsByKernel():
	case os.Getenv(namespacesVariable) == "required":
		t.Fatalf("%s=required, and this machine has no PID namespaces for us", namespacesVariable)
	default:
		t.Skipf("this machine has no PID namespaces for us: see CI, which sets %s=required", namespacesVariable)
	}
}

// contain starts a contained script in a folder of its own.
func contain(t *testing.T, scope *Scope, script string) (p *Process, output *bufio.Reader, dir string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	t.Cleanup(func() { read.Close() })
	dir = t.TempDir()
	p, err = scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Stdout: write, Contained: true})
	if err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(read), dir
}

// A contained program has the same environment as others. The descriptors by which other programs' user namespaces are
// mapped do not count: the syscall package opens them without close-on-exec.
func TestContainedProgramHasUsualEnvironment(t *testing.T) {
	t.Parallel()
	inherited, err := os.ReadDir("/proc/self/fd") // others inherit what our shell has left to us
	must(t, err)
	for _, entry := range inherited {
		if descriptor, err := strconv.Atoi(entry.Name()); err == nil && descriptor > 2 {
			syscall.CloseOnExec(descriptor)
		}
	}
	const look = `pwd; echo "$0" "$@"; env | sort; id -u; id -g; umask; nice; ulimit -n; ulimit -c
for fd in /proc/$$/fd/*; do case $(readlink $fd) in *id_map) ;; *) echo $fd | sed s,.*/,, ;; esac; done
[ $(ps -o pgid= -p $$) = $$ ] && echo leads its group
grep -E "^(Sig(Blk|Ign|Cgt)|Cap(Prm|Eff|Amb))" /proc/self/status
cat <&3`
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		dir := t.TempDir()
		found := map[bool]string{}
		for _, contained := range []bool{false, true} {
			file, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.WriteString("its third descriptor\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			var output, problems strings.Builder
			p, err := scope.Start(Spec{
				Path: "/bin/sh", Args: []string{"-c", look, "name", "an argument", ""}, Dir: dir, Contained: contained,
				Env: []string{"PATH=" + os.Getenv("PATH"), "GREETING=good day", "EMPTY="}, Stdout: &output, Stderr: &problems,
				Files: []*os.File{file},
			})
			if err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			if p.Err() != nil || problems.String() != "" {
				t.Fatalf("error = %v, output = %q", p.Err(), problems.String())
			}
			found[contained] = output.String()
		}
		if found[true] != found[false] || !strings.Contains(found[true], "leads its group\n") ||
			!strings.HasSuffix(found[true], "its third descriptor\n") {
			t.Errorf("a contained program has\n%s\nwant as another program\n%s", found[true], found[false])
		}
	})
}

func TestContainedProgramHasItsOwnProc(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	scope := newScope(t, Options{})
	_, output, _ := contain(t, scope,
		`echo $$ $(ls -d /proc/[0-9]* | wc -l); tr '\0' '\n' </proc/$$/cmdline | head -2 | tail -1`)
	words := readLine(t, output)
	if pid := number(t, words[0]); pid < 2 || pid > 20 {
		t.Errorf("PID = %d, want the second or a little later of a namespace of its own", pid)
	}
	if seen := number(t, words[1]); seen > 6 {
		t.Errorf("the program sees %d processes, want those of its namespace", seen)
	}
	if words := readLine(t, output); words[0] != "-c" {
		t.Errorf("under its number /proc has a program with the argument %q, want itself", words)
	}
}

func TestContainedProgramKeepsItsExitStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script, want string
		code         int
	}{
		{"exit 0", "", 0},
		{"exit 3", "exit status 3", 3},
		{"exit 255", "exit status 255", 255},
		{"kill -KILL $$", "signal: killed", -1},
		{"kill -TERM $$", "signal: terminated", -1},
		{"ulimit -c 0; kill -SEGV $$", "signal: segmentation fault", -1},
		{"kill -USR1 $$", "signal: user defined signal 1", -1},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			inEachMode(t, func(t *testing.T, scope *Scope) {
				t.Helper()
				p, _, _ := contain(t, scope, test.script)
				<-p.Done()
				if test.want == "" {
					if p.Err() != nil {
						t.Errorf("error = %v, want nil", p.Err())
					}
					return
				}
				exit, ok := errors.AsType[ExitError](p.Err())
				if !ok || exit.Error() != test.want || exit.ExitCode() != test.code {
					t.Errorf("error = %v, want %s and code %d", p.Err(), test.want, test.code)
				}
			})
		})
	}
}

func TestContainedProgramThatCannotStart(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		for spec, want := range map[*Spec]string{
			{Path: "/nowhere/program"}:           "starting program: fork/exec /nowhere/program: no such file or directory",
			{Path: "/etc/passwd"}:                "starting passwd: fork/exec /etc/passwd: permission denied",
			{Path: "/bin/true", Dir: "/nirwana"}: "starting true: fork/exec /bin/true: no such file or directory",
		} {
			for _, spec.Contained = range []bool{false, true} {
				if _, err := scope.Start(*spec); err == nil || err.Error() != want {
					t.Errorf("error = %v, want %s", err, want)
				}
			}
		}
	})
}

// startFromNoexec makes TMPDIR a file system from which no program may run, in a mount namespace.
func startFromNoexec() error {
	tmp := os.TempDir()
	if err := unix.Mount("none", tmp, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	scope, err := NewScope(Options{})
	if err != nil {
		return err
	}
	defer scope.Close()
	program := filepath.Join(scope.Dir, "operator")
	if err := os.WriteFile(program, []byte("#!/bin/sh"), 0o700); err != nil {
		return err
	}
	for _, contained := range []bool{true, false} {
		_, err = scope.Start(Spec{Path: program, Contained: contained})
		fmt.Println(err)
	}
	return nil
}

func TestNoexecFolderIsReported(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	owner := newActor(t, "from noexec", t.TempDir())
	owner.SysProcAttr = inUserNamespace(syscall.CLONE_NEWNS)
	owner.start(t)
	for range 2 {
		if output := strings.Join(owner.line(t), " "); !strings.HasPrefix(output, "starting operator: fork/exec ") ||
			!strings.HasSuffix(output, "/operator: permission denied: "+
				"no program may run from there (noexec): set TMPDIR to a folder on another file system") {
			t.Errorf("error = %s", output)
		}
	}
}

// inUserNamespace makes an actor root of a user namespace, and of others that it owns.
func inUserNamespace(others uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER | others,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

func TestContainedProgramGetsSIGTERM(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		p, output, _ := contain(t, scope,
			`trap 'wait; echo bye; exit 7' TERM; (trap 'echo child; exit' TERM; echo ready; sleep 1000 & wait) & wait`)
		readLine(t, output)
		p.Stop(waitLimit)
		if p.Err() == nil || p.Err().Error() != "exit status 7" {
			t.Errorf("error = %v, want exit status 7", p.Err())
		}
		rest, _ := io.ReadAll(output)
		for _, word := range []string{"bye", "child"} { // the whole group is signalled
			if !strings.Contains(string(rest), word) {
				t.Errorf("the output %q lacks %s", rest, word)
			}
		}
	})
}

func TestHangingContainedProgramIsKilled(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		p, output, dir := contain(t, scope, `trap '' TERM; setsid sleep 1000 & echo ready; wait; wait`)
		readLine(t, output)
		p.Stop(50 * time.Millisecond)
		if p.Err() == nil || p.Err().Error() != "signal: killed" {
			t.Errorf("error = %v, want killed", p.Err())
		}
		waitNoProcesses(t, output, dir)
	})
}

// A process that was killed while it is traced stays until its tracer has waited for it, like one that waits for a
// disk.
func TestUnkillableProcessIsReported(t *testing.T) {
	t.Parallel()
	scope, err := NewScope(Options{withoutNamespaces: true, patience: 50 * time.Millisecond})
	must(t, err)
	p, output, _ := contain(t, scope, "setsid sleep 1000 & echo $!; exec sleep 1000")
	left := number(t, readLine(t, output)[0])
	eventually(t, "the process is another program", func() bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", left))
		return err == nil && string(name) == "sleep\n"
	})
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	must(t, unix.PtraceSeize(left))
	p.Kill()
	// The error came early, since patience is short in this test, so others may not have ended either.
	for _, want := range []string{
		"sh has not ended 50ms after it was killed", fmt.Sprintf("its supervisor, process %d,", p.PID()),
		fmt.Sprintf("%d (sleep)", left),
	} {
		if p.Err() == nil || !strings.Contains(p.Err().Error(), want) {
			t.Errorf("error = %v, want it to contain %q", p.Err(), want)
		}
	}
	if problem := scope.stuckErrors(); problem == nil || !strings.Contains(problem.Error(), p.Err().Error()) {
		t.Errorf("error of the scope = %v", problem)
	}
	if !runs(p.PID()) {
		t.Error("the supervisor was killed")
	}
	_, err = unix.Wait4(left, nil, unix.WALL, nil)
	must(t, err)
	<-p.gone
	must(t, scope.Close())
}

func TestSupervisorReapsOrphansAndIgnoresSignals(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		p, output, _ := contain(t, scope, `for i in 1 2 3 4 5; do (sleep 0.01 &); done; `+
			`kill -HUP $PPID; kill -INT $PPID; kill -USR1 $PPID; echo $PPID; sleep 1000`)
		readLine(t, output)
		eventually(t, "the supervisor has one child", func() bool {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID()))
			return err == nil && len(strings.Fields(string(children))) == 1
		})
	})
}

// Processes that hold the output are killed before we wait for its end. If we waited first, we would wait for the whole
// delay.
func TestGrandchildHoldingOutputDoesNotDelayExit(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for name, script := range map[string]string{
			"in its group":       "sleep 1000 & exit 3",
			"in another session": "setsid sleep 1000 & exit 3",
		} {
			for _, contained := range []bool{true, false} {
				if !contained && (name != "in its group" || mode.options.withoutNamespaces) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/contained %v", mode.name, name, contained), func(t *testing.T) {
					t.Parallel()
					options := mode.options
					options.waitDelay = 2 * waitLimit
					scope := newScope(t, options)
					p := startWithOutput(t, scope, script, contained)
					select {
					case <-p.Done():
					case <-time.After(waitLimit): // Kill could not end the wait: what it ends has ended already
						t.Fatal("Wait() does not return while a grandchild holds the output")
					}
					if p.Err() == nil || p.Err().Error() != "exit status 3" {
						t.Errorf("error = %v, want exit status 3", p.Err())
					}
				})
			}
		}
	}
}

// A grandchild that has left the group of a program that is not contained ends with the scope.
func TestWaitEndsWhileGrandchildHoldsOutput(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{waitDelay: time.Second})
	number := filepath.Join(t.TempDir(), "number")
	script := fmt.Sprintf(
		`setsid sh -c 'echo $$ >%s; exec sleep 1000' & until test -s %[1]s; do sleep 0.01; done; exit 3`, number)
	p := startWithOutput(t, scope, script, false)
	<-p.Done()
	if p.Err() == nil || p.Err().Error() != "exit status 3" {
		t.Errorf("error = %v, want exit status 3", p.Err())
	}
	content, err := os.ReadFile(number)
	must(t, err)
	grandchild := strings.TrimSpace(string(content))
	if output, err := os.Readlink("/proc/" + grandchild + "/fd/1"); err != nil || !strings.HasPrefix(output, "pipe:") {
		t.Errorf("process %s no longer holds the output: %q, %v", grandchild, output, err)
	}
}

// startWithOutput starts a script whose output is no file, so that it has to be read to its end.
func startWithOutput(t *testing.T, scope *Scope, script string, contained bool) *Process {
	t.Helper()
	var output strings.Builder
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &output, Contained: contained})
	must(t, err)
	return p
}

func TestContainedBackgroundProgramIsNice(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		var output strings.Builder
		p, err := scope.Start(Spec{
			Path: "/bin/sh", Args: []string{"-c", "nice"},
			Stdout: &output, Background: true, Contained: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if want := fmt.Sprintln(backgroundNiceness()); output.String() != want {
			t.Errorf("niceness = %q, want %q", output.String(), want)
		}
	})
}

func TestScopeReportsWeakestContainment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		withoutNamespaces bool
		want              Containment
	}{{false, Namespaces}, {true, Supervised}} {
		scope, err := NewScope(Options{withoutNamespaces: test.withoutNamespaces})
		if err != nil {
			t.Fatal(err)
		}
		free, err := scope.Start(Spec{Path: "/bin/true"})
		if err != nil {
			t.Fatal(err)
		}
		<-free.Done()
		if got := scope.Containment(); got != "" {
			t.Errorf("Containment() = %q without a contained program", got)
		}
		contained, err := scope.Start(Spec{Path: "/bin/true", Contained: true})
		if err != nil {
			t.Fatal(err)
		}
		<-contained.Done()
		// A machine may have no namespaces.
		if got := scope.Containment(); got != test.want && (test.withoutNamespaces || got != Supervised) {
			t.Errorf("Containment() = %q, want %q", got, test.want)
		}
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct{ a, b, want Containment }{
		{"", Namespaces, Namespaces},
		{Supervised, Namespaces, Supervised},
		{Namespaces, Supervised, Supervised},
		{Grouped, Supervised, Grouped},
	} {
		if got := weakest(test.a, test.b); got != test.want {
			t.Errorf("weakest(%q, %q) = %q", test.a, test.b, got)
		}
	}
}
