// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package runs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/authoring/runs"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/report"
)

// all returns the runs that the labs of this repository must have.
func all(t *testing.T) (repo *checkout.Checkout, each []runs.Run) {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	for i := range repo.Labs.Labs {
		required, err := runs.Required(repo.Root, &repo.Labs.Labs[i])
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, required...)
	}
	return repo, each
}

func TestEachLabHasRuns(t *testing.T) {
	repo, each := all(t)
	if len(each) != len(runs.Names)*len(repo.Labs.Labs) {
		t.Errorf("got %d labs and %d runs", len(repo.Labs.Labs), len(each))
	}
	for _, run := range each {
		if problems := run.Problems(repo.Root); len(problems) > 0 {
			t.Errorf("%s: %s", run.File(), strings.Join(problems, "; "))
		}
	}
}

// The package finds a recording that differs from the current lab, and rejects a run with an unexpected grade.
func TestStaleRecordingIsFound(t *testing.T) {
	repo, each := all(t)
	i := slices.IndexFunc(each, func(r runs.Run) bool { return r.Lab.Number == 2 && r.Name == runs.Mistake })
	run := each[i]
	for _, test := range []struct {
		name, problem string
		change        func(*report.Report)
	}{
		{"as it is", "", func(*report.Report) {}},
		{"another check failed", "must not fail", func(r *report.Report) { r.Checks[0].Status = report.Failed }},
		{"nothing failed", "must fail, but it was passed", func(r *report.Report) {
			for i := range r.Checks {
				r.Checks[i].Status = report.Passed
			}
		}},
		{"another reason", "fails for a reason other than", func(r *report.Report) {
			for i := range r.Checks {
				r.Checks[i].Observed = "the moon is full"
			}
		}},
		{"a check is missing", "it has no check", func(r *report.Report) { r.Checks = r.Checks[1:] }},
		{"an additional check", "the lab has no check", func(r *report.Report) {
			r.Checks = append(r.Checks, report.Check{ID: "obsolete"})
		}},
		{"no grade", "the outcome is timed-out", func(r *report.Report) { r.Outcome = report.TimedOut }},
	} {
		t.Run(test.name, func(t *testing.T) {
			graded, err := run.Recorded(repo.Root)
			if err != nil {
				t.Fatal(err)
			}
			test.change(graded)
			root := t.TempDir()
			err = run.Keep(root, graded)
			_, missing := os.Stat(filepath.Join(root, filepath.FromSlash(run.File())))
			if test.problem == "" {
				if err != nil || missing != nil {
					t.Errorf("the run was not kept: error %v, file %v", err, missing)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.problem) || !errors.Is(missing, os.ErrNotExist) {
				t.Errorf("got error %v, want %q and no file", err, test.problem)
			}
		})
	}
}
