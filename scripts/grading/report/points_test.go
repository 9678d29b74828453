// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/terminal"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"graded-full":   "02-reconciler: 100 of 100 points, all 13 checks passed",
		"graded-failed": "02-reconciler: 35 of 100 points, 5 of 13 checks passed, fix first: newest-goes",
		"not-built":     "02-reconciler: 0 of 100 points, not-built: it does not compile: 7 errors",
		"interrupted":   "02-reconciler: no grade, interrupted: Ctrl-C ended the run",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := samples()[name]
			if got := r.Summary(); got != want {
				t.Errorf("Summary() = %q, want %q", got, want)
			}
		})
	}
}

func TestFullMarksNeedAGradeAndEveryCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(*report.Report)
		want bool
	}{
		{"all passed", func(*report.Report) {}, true},
		{"crashed after the last check", func(r *report.Report) { r.Outcome = report.Crashed }, false},
		{"no checks", func(r *report.Report) { r.Checks = nil }, false},
		{"no points to earn", func(r *report.Report) { r.Score, r.MaxScore = 0, 0 }, false},
		{"one skipped", func(r *report.Report) { skip(r, "burst", "x") }, false},
		{"one failed", func(r *report.Report) { fail(r, "burst", "x", "y") }, false},
		{"undecided checks", func(r *report.Report) { r.Undecided = 25 }, false},
		{"a score too low", func(r *report.Report) { r.Score-- }, false},
		{"an extension that was not started", func(r *report.Report) { extend(r, report.Skipped) }, true},
		{"an extension that failed", func(r *report.Report) { extend(r, report.Failed) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := graded(nil)
			test.edit(&r)
			if got := r.FullMarks(); got != test.want {
				t.Errorf("FullMarks() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestPointsOfPartialRun(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Undecided = 25
	if want := fmt.Sprintf("%d of the %d points that this machine can decide", r.Score, r.MaxScore); r.Points() != want {
		t.Errorf("Points() = %s", r.Points())
	}
}

// No format shows a partial verdict as a grade: formats that publish a grade refuse it, and the others mark it as
// partial.
func TestPartialVerdictIsNotAGrade(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Undecided = 25
	for _, format := range []formats.Format{formats.Classroom50, formats.Gradescope} {
		data, err := formats.Encode(&r, format, formats.Options{})
		const want = " publishes a grade, but the last run of lab 2 has none, " +
			"because --without-node skipped checks worth 25 points: " +
			"grade it without --without-node, on a machine that can run Pods"
		if data != nil || err == nil || err.Error() != string(format)+want {
			t.Errorf("%s: %q, %v", format, data, err)
		}
	}
	for format, want := range map[formats.Format]string{
		formats.JUnit: `message="The verdict is partial and not a grade: ` +
			`--without-node skipped checks worth 25 points" type="partial"`,
		formats.HTML:     "<title>Partial, 100 of 100: ",
		formats.Markdown: "100 of the 100 points that this machine can decide",
	} {
		if data := encode(t, r, format, formats.Options{}); !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q:\n%s", format, want, data)
		}
	}
	if data := encode(t, r, formats.JUnit, formats.Options{}); !strings.Contains(string(data), `errors="1"`) {
		t.Errorf("JUnit counts no error:\n%s", data)
	}
}

// extend adds the check of an extension to a report.
func extend(r *report.Report, status report.Status) {
	check := report.Check{
		ID: "migrated", Title: "What is stored is migrated", Extension: true, MaxPoints: 10, Status: status,
	}
	switch status {
	case report.Passed:
		check.Points = 10
	case report.Failed:
		check.Expected, check.Observed = "[v1beta1]", "[v1alpha1]"
	case report.Skipped:
		check.Reason = "skipped: the extension is not started"
	}
	r.Checks = append(slices.Clone(r.Checks), check)
}

func TestMilestonesAreShownWithTheirPoints(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Checks = []report.Check{
		{ID: "lists", Title: "It lists", Part: "read", Status: report.Passed, Points: 30, MaxPoints: 30},
		{
			ID: "watches", Title: "It watches", Part: "read", Status: report.Failed, MaxPoints: 10,
			Expected: "an event", Observed: "none",
		},
		{
			ID: "creates", Title: "It creates", Part: "write", Status: report.Skipped, MaxPoints: 40,
			Reason: "skipped: lists failed",
		},
		{
			ID: "informs", Title: "An informer works", Status: report.Skipped, MaxPoints: 20,
			Reason: "skipped: lists failed",
		},
	}
	r.Score, r.MaxScore = 30, 100
	const want = "read 30 of 40, write 0 of 40"
	if got := r.MilestonesText(); got != want {
		t.Errorf("MilestonesText() = %q, want %q", got, want)
	}
	r.Schema = report.Schema
	content, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(content); err != nil {
		t.Error(err)
	}
	for _, format := range []formats.Format{formats.Markdown, formats.HTML} {
		if data := encode(t, r, format, formats.Options{}); !strings.Contains(string(data), "Milestones: "+want) {
			t.Errorf("%s does not show the milestones", format)
		}
	}
	var screen bytes.Buffer
	if err := terminal.Render(&screen, &r, terminal.Options{Screen: &terminal.Screen{}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(screen.String(), "milestones: "+want) {
		t.Errorf("terminal output lacks the milestones:\n%s", screen.String())
	}

	// A run that graded one milestone shows its points as the score, and a run without a grade has none.
	r.Checks = r.Checks[:2]
	if got := r.MilestonesText(); got != "" {
		t.Errorf("with one milestone, MilestonesText() = %q", got)
	}
}

func TestExtensionPointsAreShownSeparately(t *testing.T) {
	t.Parallel()
	for status, want := range map[report.Status]struct {
		points   string
		complete bool
		tests    int
	}{
		report.Passed:  {"100 of 100 points, and 10 of 10 of the extension", true, 14},
		report.Failed:  {"100 of 100 points, and 0 of 10 of the extension", false, 14},
		report.Skipped: {"100 of 100 points", false, 13},
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			r := graded(nil)
			extend(&r, status)
			if r.Points() != want.points || r.Complete() != want.complete {
				t.Errorf("got %s, complete: %v; want %s, %v", r.Points(), r.Complete(), want.points, want.complete)
			}
			r.Schema = report.Schema
			content, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Validate(content); err != nil {
				t.Error(err)
			}
			var written bytes.Buffer
			if err := classroom50.Write(&written, &r, classroom50.Options{}); err != nil {
				t.Fatal(err)
			}
			var result struct {
				Score    int   `json:"score"`
				MaxScore int   `json:"max-score"`
				Tests    []any `json:"tests"`
			}
			if err := json.Unmarshal(written.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if result.Score != 100 || result.MaxScore != 100 || len(result.Tests) != want.tests {
				t.Errorf("a classroom gets %d of %d points, and %d tests; want 100 of 100, %d",
					result.Score, result.MaxScore, len(result.Tests), want.tests)
			}
		})
	}
}
