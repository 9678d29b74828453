// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	main "lva.io/operators/scripts/lab"
	"lva.io/operators/scripts/report"
)

// lineOf is what `lab labs` says of a lab.
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

// That a run keeps its report as the best one is shown by TestLabsAndSolutionsGetTheirModulesByThemselves.
func TestTheBestScoreStays(t *testing.T) {
	t.Parallel()
	root := bare(t)
	listed, err := here(t).Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	reports := filepath.Join(root, "out", "01-icecream")
	// graded has the report of a run in which this check failed kept, and says what the best score is.
	graded := func(failed string) int {
		t.Helper()
		last(t, root, failed, nil)
		verdict, err := report.Read(filepath.Join(reports, report.JSONFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := main.KeepBest(root, listed, verdict); err != nil {
			t.Fatal(err)
		}
		return bestIn(t, reports)
	}
	if best := graded(""); best != 100 {
		t.Errorf("after full marks the best is %d", best)
	}
	if best := graded("columns"); best != 100 {
		t.Errorf("after a worse run the best is %d", best)
	}

	// The table shows the last score, and the best where it is another.
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " 90 of 100, best 100 ") || !strings.Contains(line, "make lab-1") {
		t.Errorf("the table says %q", line)
	}
	if err := os.RemoveAll(filepath.Join(reports, "verdict")); err != nil {
		t.Fatal(err)
	}
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " –, best 100 ") || !strings.Contains(line, "never") {
		t.Errorf("after a reset the table says %q", line)
	}
}

// bestIn is the best score that a lab's folder of reports has kept.
func bestIn(t *testing.T, reports string) int {
	t.Helper()
	kept, err := report.Read(filepath.Join(reports, "best", report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	return kept.Score
}
