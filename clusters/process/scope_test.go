// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func newScope(t *testing.T, options Options) *Scope {
	t.Helper()
	scope, err := NewScope(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	})
	return scope
}

// startShell starts a script and returns what it prints as a reader that ends when no process can print any more.
func startShell(t *testing.T, scope *Scope, script string) (*Process, *bufio.Reader) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	t.Cleanup(func() { read.Close() })
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: write})
	if err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(read)
}

func readLine(t *testing.T, from *bufio.Reader) []string {
	t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return strings.Fields(line)
}

// unguarded is output that is protected only by the order of events. The race detector finds a write after the end.
type unguarded struct {
	content bytes.Buffer
	started func()
}

func (u *unguarded) Write(p []byte) (int, error) {
	u.started()
	return u.content.Write(p)
}

// After a program ends, its output can be read, even if another process that it started continues to write.
func TestOutputIsFinalAfterExit(t *testing.T) {
	t.Parallel()
	for _, contained := range []bool{false, true} {
		scope := newScope(t, Options{})
		started := make(chan struct{})
		output := &unguarded{started: sync.OnceFunc(func() { close(started) })}
		const script = `setsid sh -c 'while :; do echo left; done' & while :; do echo here; done`
		p, err := scope.Start(Spec{
			Path: "/bin/sh", Args: []string{"-c", script}, Contained: contained, Stdout: output, Stderr: output,
		})
		if err != nil {
			t.Fatal(err)
		}
		<-started
		p.Kill()
		got := output.content.String()
		if err := scope.Close(); err != nil {
			t.Fatal(err)
		}
		if output.content.String() != got {
			t.Errorf("contained: %t: the output was written to after the end", contained)
		}
	}
}

func TestScopeFolderIsPrivate(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	for _, dir := range []string{scope.Dir, filepath.Dir(scope.Dir)} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("the mode of %s is %o, want 700", dir, info.Mode().Perm())
		}
	}
}

func TestScopeNeedsOwnedRootFolder(t *testing.T) {
	tests := []struct {
		name string
		make func(root string) error
	}{
		{"it is a link", func(root string) error { return os.Symlink(filepath.Dir(root), root) }},
		{"it is a file", func(root string) error { return os.WriteFile(root, nil, 0o700) }},
		{"it belongs to another user", func(root string) error {
			return errors.Join(os.Mkdir(root, 0o700), os.Chown(root, os.Getuid()+1, -1))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			root, err := Root()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(root); err != nil {
				t.Fatal(err)
			}
			if err := test.make(root); err != nil {
				t.Skipf("only root can give a folder away: %v", err)
			}
			_, err = NewScope(Options{})
			want := root + " is not a folder of yours, so others could read what is in it: " +
				"remove it, or set TMPDIR to a folder of yours"
			if err == nil || err.Error() != want {
				t.Errorf("error = %v, want %s", err, want)
			}
		})
	}
}

func TestFolderPermissionsAreRestored(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o711, 0o500, 0} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			root, err := Root()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(root, mode); err != nil {
				t.Fatal(err)
			}
			newScope(t, Options{})
			if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the folder's mode is %v (%v), want 0700", info.Mode(), err)
			}
		})
	}
}

func TestUnusableTMPDIRIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cannot := func(tmp, why string) string {
		return "no folder can be made in " + tmp + ", which is for temporary files (" + why + "): " +
			"set TMPDIR to a folder that exists and that you may write to"
	}
	for tmp, want := range map[string]string{
		dir + "/nowhere": cannot(dir+"/nowhere", "no such file or directory"),
		file:             cannot(file, "not a directory"),
		"/proc":          cannot("/proc", "no such file or directory"),
		"here": `TMPDIR is "here", which is no absolute path: ` +
			`set it to the path of a folder, beginning with a slash`,
	} {
		t.Setenv("TMPDIR", tmp)
		if _, err := NewScope(Options{}); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

func TestStopLetsProcessExit(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, output := startShell(t, scope, `trap 'echo bye; exit 0' TERM; sleep 1000 & echo ready; wait`)
	readLine(t, output)
	p.Stop(waitLimit)
	if p.Err() != nil {
		t.Errorf("error = %v, want nil", p.Err())
	}
	if rest, _ := io.ReadAll(output); string(rest) != "bye\n" {
		t.Errorf("output = %q, want bye", rest)
	}
}

func TestStopKillsHangingProcess(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, output := startShell(t, scope, `trap '' TERM; sleep 1000 & echo ready; wait`)
	readLine(t, output)
	const grace = 50 * time.Millisecond
	asked := time.Now()
	p.Stop(grace)
	if waited := time.Since(asked); waited < grace {
		t.Errorf("the process was killed after %s, before the grace period of %s ended", waited, grace)
	}
	if p.Err() == nil || p.Err().Error() != "signal: killed" {
		t.Errorf("error = %v, want killed", p.Err())
	}
}

func TestProcessGroupEndsWithItsLeader(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	var output strings.Builder // not a file: it has to be read to the end, which the sleep prevents
	p, err := scope.Start(Spec{Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo $!"}, Stdout: &output})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Err() != nil {
		t.Errorf("error = %v, want nil", p.Err())
	}
	eventuallyEnded(t, number(t, strings.TrimSpace(output.String())))
}

func TestCloseEndsProcessesAndRemovesTheFolder(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, output := startShell(t, scope, "sleep 1000 & echo $!; wait")
	child := number(t, readLine(t, output)[0])
	if err := scope.Close(); err != nil {
		t.Fatal(err)
	}
	if runs(p.PID()) {
		t.Error("the process still runs")
	}
	eventuallyEnded(t, child)
	if exists(scope.Dir) {
		t.Error("the folder still exists")
	}
	if err := syscall.Kill(scope.guard.Process.Pid, 0); err == nil {
		t.Error("the guard still runs")
	}
	if err := scope.Close(); err != nil {
		t.Errorf("second Close() error = %v", err)
	}
}

func TestCloseKeepsGivenFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scope := newScope(t, Options{Dir: dir})
	if scope.Dir != dir {
		t.Errorf("the scope's folder is %s, want %s", scope.Dir, dir)
	}
	if err := scope.Close(); err != nil {
		t.Fatal(err)
	}
	if !exists(dir) {
		t.Error("the folder was removed")
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	if err := scope.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := scope.Start(Spec{Name: "late", Path: "/bin/sh"})
	if err == nil || err.Error() != "starting late: its run has ended" {
		t.Errorf("Start() error = %v", err)
	}
}

func TestStopOfEndedProcessSendsNoSignal(t *testing.T) {
	t.Parallel()
	scope := newScope(t, Options{})
	p, _ := startShell(t, scope, "exit 3")
	<-p.Done()
	if p.Err() == nil || p.Err().Error() != "exit status 3" {
		t.Errorf("error = %v, want exit status 3", p.Err())
	}
	// Its number is reused by another process, which must not notice.
	other, output := startShell(t, scope, `trap 'echo signalled' TERM; sleep 1000 & echo ready; wait`)
	readLine(t, output)
	p.cmd.Process.Pid = other.PID()
	p.Stop(time.Second)
	p.Kill()
	if !runs(other.PID()) {
		t.Error("the other process was killed")
	}
}
