// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

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
	"lva.io/operators/scripts/grade"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/formats"
)

// planted is a submission that has brought a report with full marks in a folder of its reports.
func planted(t *testing.T, folder string) *choice {
	t.Helper()
	lab := &manifest.Lab{Name: "02-pancake", Title: "Pancakes", Checks: []manifest.Check{{ID: "served", Title: "It is served", Points: 100}}}
	c := &choice{Checkout: &checkout.Checkout{Root: t.TempDir()}, Lab: lab, Dir: t.TempDir(), Out: t.TempDir()}
	full := grade.Blank(grade.Options{Lab: lab, Dir: c.Dir}, time.Now())
	full.Outcome, full.Score = report.Graded, full.MaxScore
	full.Checks[0].Status, full.Checks[0].Points = report.Passed, full.Checks[0].MaxPoints
	if err := formats.Write(filepath.Join(c.Out, folder), *full); err != nil {
		t.Fatal(err)
	}
	if last, err := c.last(folder, report.JSONFile); err != nil || !last.FullMarks() {
		t.Fatalf("it is no report with full marks: %v", err)
	}
	return c
}

// What is in the way of a run's files does not leave the report of before in its place.
func TestARunReplacesTheReportThatASubmissionBrought(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for _, name := range []string{report.JUnitFile, report.HTMLFile, operatorLogFile} {
		c := planted(t, "")
		if err := os.RemoveAll(filepath.Join(c.Out, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(c.Out, name, "in the way"), 0o755); err != nil {
			t.Fatal(err)
		}
		began := begin(c)
		last, err := c.last(report.JSONFile)
		if err == nil && last.FullMarks() {
			t.Errorf("with a folder in place of %s, the run begins with %v and the report has full marks", name, began)
		}
	}
}

// A run that may not write ends at once, and then there is no report.
func TestAReportWhereNoRunCanWriteIsNone(t *testing.T) {
	t.Parallel()
	c := planted(t, "")
	readOnly(t, c.Out, func() {
		if err := begin(c); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("the run begins: %v", err)
		}
		if last, err := c.last(report.JSONFile); err == nil || !strings.Contains(err.Error(), "may not be the report of a run") {
			t.Errorf("there is a report: %+v, %v", last, err)
		}
	})
}

// readOnly does something while everybody may read a folder, and nobody write.
func readOnly(t *testing.T, dir string, do func()) {
	t.Helper()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The thread is another user's, for whom the mode holds, and ends with this goroutine.
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

// The table of labs goes by what runs have written, and not by what was brought.
func TestAVerdictThatASubmissionBroughtIsNoStanding(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{verdictDir, bestDir} {
		c := planted(t, kept)
		brought := filepath.Join(c.Out, kept)
		if err := os.Chmod(filepath.Dir(c.Out), 0o755); err != nil {
			t.Fatal(err)
		}
		if row, err := c.standing(); err != nil || !strings.Contains(row[2], "100") {
			t.Errorf("what a run has written to %s is not shown: %q, %v", kept, row, err)
		}
		readOnly(t, brought, func() {
			if row, err := c.standing(); err == nil || !strings.Contains(err.Error(), "may not be the report of a run") {
				t.Errorf("with a folder %s where no run can write, it says %q, %v", kept, row, err)
			}
		})
		if err := os.Chmod(brought, 0o755); err != nil {
			t.Fatal(err)
		}
		c.Dir = t.TempDir()
		if row, err := c.standing(); err == nil || !strings.Contains(err.Error(), "is the report of another folder") {
			t.Errorf("with a %s of another folder, it says %q, %v", kept, row, err)
		}
	}
}

// The best score of another submission does not keep this one's from being kept.
func TestTheBestScoreOfAnotherFolderIsReplaced(t *testing.T) {
	t.Parallel()
	c := planted(t, bestDir)
	c.Dir = t.TempDir()
	none := grade.Blank(grade.Options{Lab: c.Lab, Dir: c.Dir}, time.Now())
	none.Outcome, none.Reason = report.Crashed, "it crashed"
	if err := c.keepBest(none); err != nil {
		t.Fatal(err)
	}
	if kept, err := c.last(bestDir, report.JSONFile); err != nil || kept.Score != 0 {
		t.Errorf("the best is %+v, %v", kept, err)
	}
}

// What is in the way of a report is no reason to wait for ever.
func TestAPipeIsNoReport(t *testing.T) {
	t.Parallel()
	c := planted(t, "")
	for _, file := range []string{
		filepath.Join(verdictDir, report.JSONFile), filepath.Join(bestDir, report.JSONFile), hintsFile, report.TestsJSONFile,
	} {
		pipe := filepath.Join(c.Out, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o755), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	_, verdict := c.last(verdictDir, report.JSONFile)
	_, hints := readKept[int](c.Out, hintsFile, hintsKept)
	_, tests := report.ReadTests(filepath.Join(c.Out, report.TestsJSONFile))
	for _, err := range []error{verdict, hints, tests} {
		if err == nil || !strings.Contains(err.Error(), "is a named pipe") {
			t.Errorf("it is read: %v", err)
		}
	}
	full, err := c.last(report.JSONFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.keepBest(full); err != nil {
		t.Errorf("it is in the way of the best score: %v", err)
	}
}
