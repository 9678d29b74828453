// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/work"
)

// lineOf returns the line of a lab in the output of `lab labs`.
func lineOf(t *testing.T, root, lab string) string {
	t.Helper()
	got := run(t, root, "labs")
	for line := range strings.Lines(got.stdout) {
		if strings.HasPrefix(line, lab) {
			return line
		}
	}
	t.Fatalf("exit code %d, no line of %s:\n%s%s", got.code, lab, got.stdout, got.stderr)
	return ""
}

// TestBestScoreIsKept checks that a report with a lower score does not replace the best one.
func TestBestScoreIsKept(t *testing.T) {
	t.Parallel()
	root := bare(t)
	listed, err := findCheckout(t).Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	reports := filepath.Join(root, "out", "01-icecream")
	// graded keeps the report of a run in which this check failed, and returns the best score.
	graded := func(failed string) int {
		t.Helper()
		last(t, root, failed, nil)
		verdict, err := report.Read(filepath.Join(reports, report.JSONFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := work.Own(&checkout.Checkout{Root: root}, listed).KeepBest(verdict); err != nil {
			t.Fatal(err)
		}
		return bestIn(t, reports)
	}
	if best := graded(""); best != 100 {
		t.Errorf("best score after full marks = %d, want 100", best)
	}
	if best := graded("columns"); best != 100 {
		t.Errorf("best score after a worse run = %d, want 100", best)
	}

	// The table has the last score, and the best one if it is higher.
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " 90 of 100, best 100 ") ||
		!strings.Contains(line, "make lab-1") {
		t.Errorf("got table row %q", line)
	}
	if err := os.RemoveAll(filepath.Join(reports, "verdict")); err != nil {
		t.Fatal(err)
	}
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " –, best 100 ") ||
		!strings.Contains(line, "never") {
		t.Errorf("table row after a reset = %q", line)
	}
}

// The points of a lab that is built in parts show which part to continue with.
func TestMilestonePointsOfLastRun(t *testing.T) {
	t.Parallel()
	root := bare(t)
	llama, err := findCheckout(t).Labs.Lab("7")
	if err != nil {
		t.Fatal(err)
	}
	// wantTable compares the table with the expected fields of each milestone's line.
	wantTable := func(want ...string) {
		t.Helper()
		for _, fields := range want {
			name, _, _ := strings.Cut(fields, " ")
			if got := strings.Join(strings.Fields(lineOf(t, root, "  "+name+" ")), " "); got != fields {
				t.Errorf("got table row %q, want %q", got, fields)
			}
		}
	}
	// graded keeps the report of a run in which all checks of a lab, or of a part of it, passed except these.
	graded := func(lab *manifest.Lab, failed ...string) {
		t.Helper()
		r := grade.Blank(grade.Options{Lab: lab, Dir: filepath.Join(root, "labs", lab.Name)}, time.Now())
		for i := range r.Checks {
			check := &r.Checks[i]
			check.Status, check.Reason, check.Points = report.Passed, "", check.MaxPoints
			if slices.Contains(failed, check.ID) {
				check.Status, check.Points, check.Expected, check.Observed = report.Failed, 0, "right", "wrong"
			}
			r.Score += check.Points
		}
		if err := formats.Write(filepath.Join(root, "out", lab.Name, "verdict"), *r); err != nil {
			t.Fatal(err)
		}
	}

	wantTable(
		"7a read – make watch-7 PART=read", "7b write – make watch-7 PART=write", "7c trust – make watch-7 PART=trust",
	)
	graded(llama, "discovery", "available")
	wantTable("7a read 30 of 35 make watch-7 PART=read", "7b write 32 of 32 done", "7c trust 28 of 28 done")
	write, err := llama.Limit("write")
	if err != nil {
		t.Fatal(err)
	}
	graded(write)
	wantTable("7a read – make watch-7 PART=read", "7b write 32 of 32 done", "7c trust – make watch-7 PART=trust")
}

// bestIn returns the best score in a lab's folder of reports.
func bestIn(t *testing.T, reports string) int {
	t.Helper()
	kept, err := report.Read(filepath.Join(reports, "best", report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	return kept.Score
}
