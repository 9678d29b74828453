// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// However a run ends, it leaves nothing behind, and its report has no grade.
func TestEndedRun(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	const begins, runs = "lab 02-reconciler", "step install the API"
	for _, test := range []struct {
		name, when string
		signal     syscall.Signal
		make       bool // the signal is sent to make, whose recipe runs the command
		outcome    report.Outcome
	}{
		{"Ctrl-C at the beginning", begins, syscall.SIGINT, false, report.Interrupted},
		{"Ctrl-C while the checks run", runs, syscall.SIGINT, false, report.Interrupted},
		{"kill -9 at the beginning", begins, syscall.SIGKILL, false, report.Unfinished},
		{"kill -9 while the checks run", runs, syscall.SIGKILL, false, report.Unfinished},
		{"kill -9 of make", runs, syscall.SIGKILL, true, report.Interrupted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := complete(t)
			out := filepath.Join(root, "out", "solutions", "02-reconciler")
			if err := formats.Write(out, full(filepath.Join(root, "solutions", "02-reconciler"))); err != nil {
				t.Fatal(err)
			}
			c, temporary := command(t, root, "grade", "2", "--solution")
			if test.make {
				// This is how make starts a recipe. The commands after it keep the shell from replacing itself with the command.
				c.Path, c.Args = "/bin/sh", []string{"sh", "-c", lab + " grade 2 --solution; exit $?"}
				c.Env = append(c.Env, "MAKELEVEL=1")
			}
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			output, seen := startUntil(t, c, test.when)
			if err := c.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(output) // until all processes have closed it
			_ = c.Wait()
			wantNothing(t, temporary)
			if code := c.ProcessState.ExitCode(); code == 0 || (test.outcome == report.Interrupted && !test.make && code != 1) {
				t.Errorf("got exit code %d", code)
			}
			// The report must not have the grade of the run before.
			written, err := report.Read(filepath.Join(out, report.JSONFile))
			switch {
			case err != nil:
				t.Errorf("%v; output:\n%s%s", err, seen, rest)
			case written.Outcome != test.outcome || written.Score != 0:
				t.Errorf("got outcome %s with %d points: %s", written.Outcome, written.Score, written.Reason)
			}
		})
	}
}

// A run that fails does not end the watch: the next save is graded. The verdict on a failed check can be read at once.
func TestWatchOutlivesFailedRun(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	const name = "01-icecream"
	root := complete(t, name)
	dir, out := filepath.Join(root, "labs", name), filepath.Join(root, "out", name)
	labs, err := filepath.Glob(filepath.Join(findCheckout(t).Root, "labs", "*"))
	if err == nil {
		err = errors.Join(
			os.Remove(filepath.Join(root, "labs")), os.CopyFS(dir, os.DirFS(filepath.Join(root, "solutions", name))),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range labs {
		if link := filepath.Join(root, "labs", filepath.Base(other)); link != dir {
			if err := os.Symlink(other, link); err != nil {
				t.Fatal(err)
			}
		}
	}
	types := filepath.Join(dir, "api", "v1", "icecream_types.go")
	right, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	wrong := regexp.MustCompile(`(?m)^// \+kubebuilder:printcolumn.*SoldOut.*\n`).ReplaceAll(right, nil)
	if len(wrong) == len(right) {
		t.Fatal("lab 01 has no column SoldOut")
	}
	if err := os.WriteFile(types, wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	c, temporary := command(t, root, "watch", "1")
	const waits = "save a file to grade again"
	output, _ := startUntil(t, c, waits)
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	if err := os.WriteFile(types, right, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := readUntil(t, output, "fixed: columns: ")
	// The two are a required check, and the check itself.
	if checks := regexp.MustCompile(`(?m)^ok +\S+`).FindAllString(seen, -1); len(checks) != 2 {
		t.Errorf("checks that passed before the verdict = %q, want two:\n%s", checks, seen)
	}
	readUntil(t, output, waits)
	save := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config", "saved.yaml"), []byte("kind: Saved\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The folder for the reports is missing during one run.
	if err := errors.Join(os.RemoveAll(out), os.WriteFile(out, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	save()
	readUntil(t, output, "This run has no verdict: ")
	readUntil(t, output, waits)
	if err := errors.Join(os.Remove(out), os.Mkdir(out, 0o755)); err != nil {
		t.Fatal(err)
	}
	save()
	readUntil(t, output, waits)
	if last, err := report.Read(filepath.Join(out, report.JSONFile)); err != nil || last.Score != 100 {
		t.Errorf("last run = %+v, error %v", last, err)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(output) // until all processes have closed it
	if err := c.Wait(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("the watch ended with %v, want exit code 1", err)
	}
	wantNothing(t, temporary)
}

// startUntil starts a command and reads its output until a line contains the text. The rest stays unread.
func startUntil(t *testing.T, c *exec.Cmd, text string) (output *bufio.Reader, seen string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	c.Stdout, c.Stderr = write, write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	output = bufio.NewReader(read)
	return output, readUntil(t, output, text)
}

// readUntil reads until a line contains the text, and returns what it read.
func readUntil(t *testing.T, output *bufio.Reader, text string) (seen string) {
	t.Helper()
	for !strings.Contains(seen, text) {
		line, err := output.ReadString('\n')
		seen += line
		if err != nil {
			t.Fatalf("the command ended before it printed %q:\n%s", text, seen)
		}
	}
	return seen
}

// full returns the report of a run with full marks for a folder.
func full(dir string) report.Report {
	return report.Report{
		Lab: "02-reconciler", Title: "The reconciler", Outcome: report.Graded, Score: 100, MaxScore: 100,
		Submission:  report.Submission{Dir: dir},
		Environment: report.Environment{Cluster: "embedded", OS: "linux", Arch: "amd64", CPUs: 2},
		Checks: []report.Check{
			{ID: "old", Title: "The grade of the run before", Status: report.Passed, Points: 100, MaxPoints: 100},
		},
	}
}

// Two folders with the same name have reports of their own, and neither shows the other's.
func TestReportsAreSeparatePerFolder(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := bare(t)
	var dirs []string
	for _, student := range []string{"a", "b"} {
		dir := filepath.Join(t.TempDir(), student, "operator\x1b[31m")
		if err := errors.Join(
			os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/icecream\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	first := run(t, root, "report", "2", "--dir", dirs[0])
	_, folder, found := strings.Cut(first.stderr, "there is no report ")
	folder, _, _ = strings.Cut(folder, "/"+report.JSONFile)
	if !strings.Contains(folder, root) || strings.Contains(folder, "..") {
		t.Fatalf("unexpected folder of reports %q", folder)
	}
	if first.code != 1 || !found || strings.Contains(first.stderr, "\x1b") {
		t.Fatalf("exit code %d, %q", first.code, first.stderr)
	}
	if err := formats.Write(folder, full(dirs[0])); err != nil {
		t.Fatal(err)
	}
	if got := run(t, root, "report", "2", "--dir", dirs[0]); got.code != 0 ||
		!strings.Contains(got.stdout, "100 of 100 points") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("the folder's own report is not shown: exit code %d, %q %s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, root, "report", "2", "--dir", dirs[1]); got.code != 1 ||
		!strings.Contains(got.stderr, "there is no report ") {
		t.Errorf("want no report for the other folder, got exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
	// The user has copied the reports, or moved the folder.
	if err := formats.Write(folder, full(dirs[1])); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"report", "hint"} {
		if err := formats.Write(filepath.Join(folder, "verdict"), full(dirs[1])); err != nil {
			t.Fatal(err)
		}
		got := run(t, root, command, "2", "--dir", dirs[0])
		if got.code != 1 || got.stdout != "" ||
			!strings.Contains(got.stderr, "is the report of another folder, ") || strings.Contains(got.stderr, "\x1b") {
			t.Errorf("%s: exit code %d, %s%q", command, got.code, got.stdout, got.stderr)
		}
	}
}

// A machine that stops for a while in the middle of a run costs no points. The run has full marks, or no grade and the
// reason.
func TestStoppedRunLosesNoPoints(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	if runtime.GOOS != "linux" {
		t.Log("skipping the stop: processes are found in Linux's /proc")
		return
	}
	root := complete(t)
	c, temporary := command(t, root, "grade", "2", "--solution")
	output, seen := startUntil(t, c, "step start the operator")
	moment := rand.N(8 * time.Second)
	<-time.After(moment)
	stopped := signalAll(t, c.Process.Pid, syscall.SIGSTOP)
	<-time.After(20 * time.Second)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT) // a process that has ended needs no signal
	}
	rest, _ := io.ReadAll(output)
	_ = c.Wait()
	wantNothing(t, temporary)
	written, err := report.Read(filepath.Join(root, "out", "solutions", "02-reconciler", report.JSONFile))
	if err != nil {
		t.Fatalf("%v; output:\n%s%s", err, seen, rest)
	}
	full := written.Outcome == report.Graded && written.Score == written.MaxScore
	undecided := written.Outcome == report.Error && strings.HasPrefix(written.Reason, "this machine stopped for ")
	if !full && !undecided {
		t.Errorf("after stopping %d processes %s after the operator's start: outcome %s with %d points: %s\n%s%s",
			len(stopped), moment, written.Outcome, written.Score, written.Reason, seen, rest)
	}
}

// signalAll sends a signal to a process and to all its descendants, until it finds no more of them, and returns their
// PIDs.
func signalAll(t *testing.T, pid int, signal syscall.Signal) []int {
	t.Helper()
	var all []int
	for {
		before := len(all)
		for next := []int{pid}; len(next) > 0; {
			current := next[0]
			next = next[1:]
			if !slices.Contains(all, current) {
				all = append(all, current)
				_ = syscall.Kill(current, signal) // it may just have ended
			}
			lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", current))
			for _, list := range lists {
				children, _ := os.ReadFile(list)
				for child := range strings.FieldsSeq(string(children)) {
					number, err := strconv.Atoi(child)
					if err != nil {
						t.Fatal(err)
					}
					next = append(next, number)
				}
			}
		}
		if len(all) == before {
			return all
		}
	}
}
