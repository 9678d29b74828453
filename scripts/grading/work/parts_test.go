// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// inParts returns a lab with a check in each of two parts.
func inParts() *manifest.Lab {
	return &manifest.Lab{Name: "07-oven", Checks: []manifest.Check{
		{ID: "warm", Part: "heat", Points: 40}, {ID: "crisp", Part: "bake", Points: 60, Needs: []string{"warm"}},
	}}
}

func TestWatchContinuesWithFirstOpenPart(t *testing.T) {
	t.Parallel()
	s := target{work: &Work{Lab: inParts(), Out: t.TempDir()}}
	next := func() *Work {
		t.Helper()
		w, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	// graded records a verdict in which only these checks passed, and reports whether grading continues.
	graded := func(w *Work, passed ...string) bool {
		t.Helper()
		verdict := &report.Report{Outcome: report.Graded, MaxScore: w.Lab.MaxScore()}
		for _, check := range w.Lab.Checks {
			result := report.Check{ID: check.ID, Status: report.Failed}
			for _, id := range passed {
				if id == check.ID {
					result.Status, verdict.Score = report.Passed, verdict.Score+check.Points
				}
			}
			verdict.Checks = append(verdict.Checks, result)
		}
		if err := keepParts(w.Out, w.Lab, verdict); err != nil {
			t.Fatal(err)
		}
		return s.continues(w, verdict)
	}
	for _, step := range []struct {
		what, part string // the part that comes next; empty: the whole lab
		passed     []string
		follows    bool
	}{
		{"at first", "heat", nil, false},
		{"after a failure", "heat", []string{"warm"}, true},
		{"after the first part", "bake", nil, false},
		{"after a failure in the second", "bake", []string{"crisp"}, true},
		{"after the last part", "", []string{"crisp"}, false},
		{"after the whole lab, where the first part fails again", "heat", []string{"warm"}, true},
		{"when all parts are done", "", []string{"warm", "crisp"}, false},
		{"when the whole lab is done", "", []string{"warm", "crisp"}, false},
	} {
		w := next()
		if w.Lab.Part != step.part {
			t.Fatalf("%s: next part = %q, want %q", step.what, w.Lab.Part, step.part)
		}
		if got := graded(w, step.passed...); got != step.follows {
			t.Errorf("%s: continues() after %v passed = %t", step.what, step.passed, got)
		}
	}
	s.part = "bake"
	if w := next(); w.Lab.Part != "bake" || graded(w, "crisp") {
		t.Errorf("limited to bake: next part = %q, or the watch continued by itself", w.Lab.Part)
	}
}

// A grader that failed gives no verdict on a part.
func TestGraderErrorKeepsParts(t *testing.T) {
	t.Parallel()
	s := target{work: &Work{Lab: inParts(), Out: t.TempDir()}}
	for _, verdict := range []*report.Report{
		{
			Outcome: report.Graded,
			Checks:  []report.Check{{ID: "warm", Status: report.Passed}, {ID: "crisp", Status: report.Skipped}},
		},
		{
			Outcome: report.Error,
			Checks:  []report.Check{{ID: "warm", Status: report.Skipped}, {ID: "crisp", Status: report.Skipped}},
		},
	} {
		if err := keepParts(s.work.Out, s.work.Lab, verdict); err != nil {
			t.Fatal(err)
		}
	}
	if w, err := s.next(); err != nil || w.Lab.Part != "bake" {
		t.Errorf("next part = %q, error %v", w.Lab.Part, err)
	}
}

// A lab that is not built in parts is graded as a whole, and nothing is recorded.
func TestWatchOfLabWithoutParts(t *testing.T) {
	t.Parallel()
	s := target{work: &Work{
		Lab: &manifest.Lab{Name: "01-pancake", Checks: []manifest.Check{{ID: "served", Points: 100}}},
		Out: t.TempDir(),
	}}
	w, err := s.next()
	if err != nil || w != s.work {
		t.Errorf("next() = %+v, error %v", w, err)
	}
	s.part = "heat"
	if _, err := s.next(); err == nil {
		t.Error("next() accepted a part of a lab without parts")
	}
}
