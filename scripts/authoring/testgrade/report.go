// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"fmt"
	"strings"
	"time"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
)

// Blank returns the report of a run that has not ended.
func Blank(o *Options) *report.Tests {
	return &report.Tests{
		Schema: report.TestsSchema, Lab: o.Lab.Name, Title: o.Lab.Title, Dir: o.Dir,
		Started: time.Now(), Want: o.Lab.Tests.Percentage(),
		Outcome: report.Unfinished, Reason: "the run has not ended: it is still running, or it was killed",
	}
}

// Hide removes details from a report that would show a student what to test: the names of missed mutants, unless
// revealed reports that they may be shown.
func Hide(t *report.Tests, revealed func(name string) bool) {
	for i := range t.Mutants {
		m := &t.Mutants[i]
		if m.Fate != report.MutantFound && !revealed(m.Name) {
			m.Name, m.Misconception = "", ""
		}
	}
}

// Add decides the check of the student's own tests in the report of a run that has ended. It gives all points, or none.
// If the run was not graded, or the results of the tests are unknown, the check is skipped. A failure of the machine
// becomes the outcome of the run, not a verdict on the tests. Add does nothing if the tests are worth no points.
func Add(r *report.Report, t *report.Tests, lab *manifest.Lab) {
	planned := len(r.Checks)
	grade.PlanOwnTests(r, lab)
	if len(r.Checks) == planned {
		return
	}
	check := &r.Checks[planned]
	if r.Outcome != report.Graded {
		return
	}
	check.Seconds = t.Seconds
	switch {
	case t.Outcome == report.Error || t.Outcome == report.Interrupted:
		r.Outcome, r.Reason = t.Outcome, t.Reason
	case t.Outcome == report.Unfinished:
		check.Reason = "skipped: " + t.Reason
	case t.FullMarks():
		check.Status, check.Points, check.Reason = report.Passed, check.MaxPoints, ""
	default:
		check.Status, check.Reason = report.Failed, ""
		check.Expected = fmt.Sprintf("your tests pass on your operator and on ours, "+
			"and fail on %d %% of our wrong solutions", t.Want)
		found, missed := t.Count(report.MutantFound), t.Count(report.MutantMissed)
		check.Observed = fmt.Sprintf("they fail on %d of %d (%d %%)", found, found+missed, t.Share())
		if n := t.Count(report.MutantUntried); n > 0 {
			check.Observed += fmt.Sprintf("; %d more were not tried", n)
		}
		switch {
		case t.Outcome != report.Graded:
			check.Observed = t.Reason
			if t.Ours != nil {
				check.Evidence = t.Ours.Output
			}
		case !t.Own.Passed:
			check.Observed = "on your own operator " + t.Own.Summary()
			check.Evidence = t.Own.Output
		}
		for _, d := range t.Diagnostics {
			check.Evidence = append(check.Evidence, strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
		}
		if t.Outcome == report.Graded && t.Own.Passed {
			for _, m := range t.Mutants {
				if m.Fate == report.MutantMissed {
					check.Evidence = append(check.Evidence, "missed: "+m.Text())
				}
			}
		}
	}
	r.Score += check.Points
}
