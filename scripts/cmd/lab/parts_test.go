// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

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
	s := watchTarget{lab: &choice{Lab: inParts(), Out: t.TempDir()}}
	next := func() *choice {
		t.Helper()
		c, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// graded records a verdict in which only these checks passed, and reports whether grading continues.
	graded := func(c *choice, passed ...string) bool {
		t.Helper()
		verdict := &report.Report{Outcome: report.Graded, MaxScore: c.Lab.MaxScore()}
		for _, check := range c.Lab.Checks {
			result := report.Check{ID: check.ID, Status: report.Failed}
			for _, id := range passed {
				if id == check.ID {
					result.Status, verdict.Score = report.Passed, verdict.Score+check.Points
				}
			}
			verdict.Checks = append(verdict.Checks, result)
		}
		if err := keepParts(c.Out, c.Lab, verdict); err != nil {
			t.Fatal(err)
		}
		return s.follows(c, verdict)
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
		c := next()
		if c.Lab.Part != step.part {
			t.Fatalf("%s: next part = %q, want %q", step.what, c.Lab.Part, step.part)
		}
		if got := graded(c, step.passed...); got != step.follows {
			t.Errorf("%s: follows() after %v passed = %t", step.what, step.passed, got)
		}
	}
	s.only = "bake"
	if c := next(); c.Lab.Part != "bake" || graded(c, "crisp") {
		t.Errorf("limited to bake: next part = %q, or the watch continued by itself", c.Lab.Part)
	}
}

// A grader that failed gives no verdict on a part.
func TestGraderErrorKeepsParts(t *testing.T) {
	t.Parallel()
	s := watchTarget{lab: &choice{Lab: inParts(), Out: t.TempDir()}}
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
		if err := keepParts(s.lab.Out, s.lab.Lab, verdict); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := s.next(); err != nil || c.Lab.Part != "bake" {
		t.Errorf("next part = %q, error %v", c.Lab.Part, err)
	}
}

// A lab that is not built in parts is graded as a whole, and nothing is recorded.
func TestWatchOfLabWithoutParts(t *testing.T) {
	t.Parallel()
	s := watchTarget{lab: &choice{
		Lab: &manifest.Lab{Name: "01-pancake", Checks: []manifest.Check{{ID: "served", Points: 100}}},
		Out: t.TempDir(),
	}}
	c, err := s.next()
	if err != nil || c != s.lab {
		t.Errorf("next() = %+v, error %v", c, err)
	}
	s.only = "heat"
	if _, err := s.next(); err == nil {
		t.Error("next() accepted a part of a lab without parts")
	}
}
