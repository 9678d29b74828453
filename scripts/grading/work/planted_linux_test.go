// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/gradescope"
)

// planted returns a submission that brought a report with full marks in a folder of its reports.
func planted(t *testing.T, folder string) *Work {
	t.Helper()
	lab := &manifest.Lab{
		Name: "02-pancake", Title: "Pancakes", Checks: []manifest.Check{{ID: "served", Title: "It is served", Points: 100}},
	}
	w := &Work{Checkout: &checkout.Checkout{Root: t.TempDir()}, Lab: lab, Dir: t.TempDir(), Out: t.TempDir()}
	full := grade.Blank(grade.Options{Lab: lab, Dir: w.Dir}, time.Now())
	full.Outcome, full.Score = report.Graded, full.MaxScore
	full.Checks[0].Status, full.Checks[0].Points = report.Passed, full.Checks[0].MaxPoints
	if err := formats.Write(filepath.Join(w.Out, folder), *full); err != nil {
		t.Fatal(err)
	}
	if last, err := w.last(folder, report.JSONFile); err != nil || !last.FullMarks() {
		t.Fatalf("invalid test: no report with full marks: %v", err)
	}
	return w
}

// If something blocks a run's files, the earlier report does not remain.
func TestRunReplacesPlantedReport(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for _, name := range []string{report.JUnitFile, report.HTMLFile, operatorLogFile} {
		w := planted(t, "")
		if err := os.RemoveAll(filepath.Join(w.Out, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(w.Out, name, "blocker"), 0o755); err != nil {
			t.Fatal(err)
		}
		began := w.begin()
		last, err := w.last(report.JSONFile)
		if err == nil && last.FullMarks() {
			t.Errorf("with a folder in place of %s: begin() error = %v, but the report has full marks", name, began)
		}
	}
}

// Files that a submission leaves in the folder of the reports are not shown after its run. The run replaces them, or
// there is no report.
func TestRunRemovesPlantedReports(t *testing.T) {
	t.Parallel()
	nothing := func(*Work) error { return nil }
	plantFolder := func(name string) func(*Work) error {
		return func(w *Work) error {
			folder := filepath.Join(w.Out, name)
			return errors.Join(
				os.RemoveAll(folder), os.MkdirAll(filepath.Join(folder, "blocker"), 0o755), os.Chmod(folder, 0o555),
			)
		}
	}
	for _, test := range []struct {
		name   string
		left   func(*Work) error // another action of the submission
		failed error             // what ended the run
		wrong  bool              // the report of the run contradicts itself, so it can't be written
		want   string            // the error of the run; empty: it has none, and its report is there
	}{
		{name: "a report", left: nothing},
		{name: "a page that is a folder", left: plantFolder(report.HTMLFile)},
		{name: "a report for CI that is a folder", left: plantFolder(report.JUnitFile)},
		{name: "a planted verdict", left: func(w *Work) error {
			brought, err := w.last(report.JSONFile)
			if err != nil {
				return err
			}
			verdict := filepath.Join(w.Out, verdictDir)
			return errors.Join(formats.Write(verdict, *brought), os.Chmod(verdict, 0o555))
		}},
		{name: "a verdict that is a file", left: func(w *Work) error {
			return os.WriteFile(filepath.Join(w.Out, verdictDir), nil, 0o600)
		}},
		{name: "a folder that is read-only", left: func(w *Work) error { return os.Chmod(w.Out, 0o555) }},
		{
			name: "the run has failed", left: nothing,
			failed: errors.New("its tests can't be graded"), want: "its tests can't be graded",
		},
		{
			name:   "the run has failed, and the folder is read-only",
			left:   func(w *Work) error { return os.Chmod(w.Out, 0) },
			failed: os.ErrPermission, want: "permission denied",
		},
		{name: "the report can't be written", left: nothing, wrong: true, want: "writing the report of 02-pancake"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := planted(t, "")
			none := grade.Blank(grade.Options{Lab: w.Lab, Dir: w.Dir}, time.Now())
			none.Outcome, none.Reason = report.Crashed, "it crashed"
			if test.wrong {
				none.Score = 1
			}
			if err := test.left(w); err != nil {
				t.Fatal(err)
			}
			err := w.settle(none, test.failed)
			if test.want == "" {
				for _, folder := range []string{"", verdictDir} {
					if last, readErr := w.last(folder, report.JSONFile); err != nil || readErr != nil ||
						last.Outcome != report.Crashed {
						t.Errorf("settle() error = %v; report in %q = %+v, error %v", err, folder, last, readErr)
					}
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("settle() error = %v, want %q", err, test.want)
			}
			if last, err := w.last(report.JSONFile); err == nil || !strings.Contains(err.Error(), "there is no report ") {
				t.Errorf("last() = %+v, error %v", last, err)
			}
		})
	}
}

// Gradescope accepts the content of the file, however the run ended.
func TestRunRemovesPlantedResults(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("its tests can't be graded")} {
		w, dir := planted(t, ""), t.TempDir()
		g := &resultsFile{file: filepath.Join(dir, "results.json"), visibility: gradescope.Visibilities[0]}
		if err := errors.Join(os.WriteFile(g.file, []byte(`{"score":100}`), 0o600), os.Chmod(dir, 0o555)); err != nil {
			t.Fatal(err)
		}
		none := grade.Blank(grade.Options{Lab: w.Lab, Dir: w.Dir}, time.Now())
		none.Outcome, none.Reason = report.Crashed, "it crashed"
		err := g.finish(none, failed)
		content, readErr := os.ReadFile(g.file)
		if !errors.Is(err, failed) || errors.Is(readErr, os.ErrNotExist) != (failed != nil) ||
			strings.Contains(string(content), `"score":100`) {
			t.Errorf("finish() error = %v; result = %s, error %v", err, content, readErr)
		}
	}
}

// If a run may not write into another user's folder, it ends at once, without a report.
func TestReportInReadOnlyFolderIsIgnored(t *testing.T) {
	t.Parallel()
	w := planted(t, "")
	readOnly(t, w.Out, func() {
		began := w.begin()
		last, err := w.last(report.JSONFile)
		if began == nil && os.Geteuid() != 0 {
			// The folder belongs to this user, and the run has restored its permissions.
			if err != nil || last.Outcome != report.Unfinished {
				t.Errorf("last() = %+v, error %v", last, err)
			}
			return
		}
		if began == nil || !strings.Contains(began.Error(), "permission denied") {
			t.Errorf("begin() error = %v", began)
		}
		if err == nil || !strings.Contains(err.Error(), "may not be the report of a run") {
			t.Errorf("last() = %+v, error %v", last, err)
		}
	})
}

// readOnly calls do while all users may read a folder, and no user may write to it.
func readOnly(t *testing.T, dir string, do func()) {
	t.Helper()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The thread runs as another user, for whom the mode is enforced. It ends with this goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			const nobody = 65534
			if _, err := unix.SetfsuidRetUid(nobody); err != nil {
				t.Error(err)
				return
			}
		}
		do()
	}()
	<-ended
}

// The table of labs uses only reports that runs have written, not reports that a submission brought.
func TestPlantedVerdictIsIgnored(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{verdictDir, bestDir} {
		w := planted(t, kept)
		brought := filepath.Join(w.Out, kept)
		if err := os.Chmod(filepath.Dir(w.Out), 0o755); err != nil {
			t.Fatal(err)
		}
		if row, err := w.Standing(); err != nil || !strings.Contains(row[2], "100") {
			t.Errorf("the report of a run in %s is not shown: %q, error %v", kept, row, err)
		}
		readOnly(t, brought, func() {
			if row, err := w.Standing(); err == nil || !strings.Contains(err.Error(), "may not be the report of a run") {
				t.Errorf("with a read-only folder %s: Standing() = %q, %v", kept, row, err)
			}
		})
		if err := os.Chmod(brought, 0o755); err != nil {
			t.Fatal(err)
		}
		w.Dir = t.TempDir()
		if row, err := w.Standing(); err == nil || !strings.Contains(err.Error(), "is the report of another folder") {
			t.Errorf("with a %s of another folder: Standing() = %q, %v", kept, row, err)
		}
	}
}

// The best score of another submission does not prevent keeping this one's.
func TestBestScoreOfOtherFolderIsReplaced(t *testing.T) {
	t.Parallel()
	w := planted(t, bestDir)
	w.Dir = t.TempDir()
	none := grade.Blank(grade.Options{Lab: w.Lab, Dir: w.Dir}, time.Now())
	none.Outcome, none.Reason = report.Crashed, "it crashed"
	if err := w.KeepBest(none); err != nil {
		t.Fatal(err)
	}
	if kept, err := w.last(bestDir, report.JSONFile); err != nil || kept.Score != 0 {
		t.Errorf("best report = %+v, error %v", kept, err)
	}
}

// A named pipe in place of a report must not block the command.
func TestPipeIsNotReport(t *testing.T) {
	t.Parallel()
	w := planted(t, "")
	for _, file := range []string{
		filepath.Join(verdictDir, report.JSONFile), filepath.Join(bestDir, report.JSONFile), partsFile, report.TestsJSONFile,
	} {
		pipe := filepath.Join(w.Out, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o755), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	_, verdict := w.last(verdictDir, report.JSONFile)
	_, parts := report.ReadKept[bool](w.Out, partsFile, partsKept)
	_, tests := report.ReadTests(filepath.Join(w.Out, report.TestsJSONFile))
	for _, err := range []error{verdict, parts, tests} {
		if err == nil || !strings.Contains(err.Error(), "is a named pipe") {
			t.Errorf("reading a named pipe: error = %v", err)
		}
	}
	full, err := w.last(report.JSONFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.KeepBest(full); err != nil {
		t.Errorf("a named pipe blocks the best score: %v", err)
	}
}
