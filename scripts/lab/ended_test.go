// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/formats"
)

// However a run ends, nothing of it stays, and its report says that it has no grade.
func TestARunThatIsEnded(t *testing.T) {
	t.Parallel()
	const begins, runs = "lab 02-reconciler", "step install the API"
	for _, test := range []struct {
		name, when string
		signal     syscall.Signal
		make       bool // the signal goes to make, whose recipe the command is
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
				// As make starts a recipe. What follows keeps the shell from becoming the command.
				c.Path, c.Args = "/bin/sh", []string{"sh", "-c", lab + " grade 2 --solution; exit $?"}
				c.Env = append(c.Env, "MAKELEVEL=1")
			}
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			c.Stdout, c.Stderr = write, write
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			output := bufio.NewReader(read)
			var seen strings.Builder
			for !strings.Contains(seen.String(), test.when) {
				line, err := output.ReadString('\n')
				seen.WriteString(line)
				if err != nil {
					t.Fatalf("it ended before %q:\n%s", test.when, seen.String())
				}
			}
			if err := c.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(output) // until nobody can write any more
			_ = c.Wait()
			wantNothing(t, temporary)
			if code := c.ProcessState.ExitCode(); code == 0 || (test.outcome == report.Interrupted && !test.make && code != 1) {
				t.Errorf("the exit code is %d", code)
			}
			// Nobody is handed out the grade of the run before.
			written, err := report.Read(filepath.Join(out, report.JSONFile))
			switch {
			case err != nil:
				t.Errorf("%v; it printed\n%s%s", err, seen.String(), rest)
			case written.Outcome != test.outcome || written.Score != 0:
				t.Errorf("the outcome is %s with %d points: %s", written.Outcome, written.Score, written.Reason)
			}
		})
	}
}

// full is the report of a run with full marks on what is in a folder.
func full(dir string) report.Report {
	return report.Report{
		Lab: "02-reconciler", Title: "The reconciler", Outcome: report.Graded, Score: 100, MaxScore: 100,
		Submission:  report.Submission{Dir: dir},
		Environment: report.Environment{Cluster: "embedded", OS: "linux", Arch: "amd64", CPUs: 2},
		Checks:      []report.Check{{ID: "old", Title: "The grade of the run before", Status: report.Passed, Points: 100, MaxPoints: 100}},
	}
}

// Two folders with the same name have reports of their own, and nobody is shown another's.
func TestReportsAreOfOneFolder(t *testing.T) {
	t.Parallel()
	root := bare(t)
	var dirs []string
	for _, student := range []string{"a", "b"} {
		dir := filepath.Join(t.TempDir(), student, "operator\x1b[31m")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/icecream\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	first := run(t, root, "report", "2", "--dir", dirs[0])
	_, folder, found := strings.Cut(first.stderr, "there is no report ")
	folder, _, _ = strings.Cut(folder, "/"+report.JSONFile)
	if !strings.Contains(folder, root) || strings.Contains(folder, "..") {
		t.Fatalf("its reports are in %q", folder)
	}
	if first.code != 1 || !found || strings.Contains(first.stderr, "\x1b") {
		t.Fatalf("exit code %d, %q", first.code, first.stderr)
	}
	if err := formats.Write(folder, full(dirs[0])); err != nil {
		t.Fatal(err)
	}
	if got := run(t, root, "report", "2", "--dir", dirs[0]); got.code != 0 || !strings.Contains(got.stdout, "100 of 100 points") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("its own report is not shown: exit code %d, %q %s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, root, "report", "2", "--dir", dirs[1]); got.code != 1 || !strings.Contains(got.stderr, "there is no report ") {
		t.Errorf("the other folder has none: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
	// Somebody has copied it there, or the folder was moved.
	if err := formats.Write(folder, full(dirs[1])); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"report", "hint"} {
		if err := formats.Write(filepath.Join(folder, "verdict"), full(dirs[1])); err != nil {
			t.Fatal(err)
		}
		got := run(t, root, command, "2", "--dir", dirs[0])
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "is the report of another folder, ") || strings.Contains(got.stderr, "\x1b") {
			t.Errorf("%s: exit code %d, %s%q", command, got.code, got.stdout, got.stderr)
		}
	}
}
