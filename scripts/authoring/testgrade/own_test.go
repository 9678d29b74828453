// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/submission/samples"
	"lva.io/operators/scripts/grading/work"
)

// steps is the view of a run: the names of the steps that it received.
type steps []string

func (s *steps) StepStarted(name string)                      { *s = append(*s, name) }
func (*steps) StepProgress(string, string)                    {}
func (s *steps) StepDone(_ string, _ time.Duration, n string) { *s = append(*s, "done: "+n) }
func (*steps) CheckStarted(report.Check)                      {}
func (s *steps) CheckDone(c report.Check)                     { *s = append(*s, c.ID+" "+string(c.Status)) }

// If the student's own tests are worth points, lab grade runs them, once, and lab watch uses the known results.
func TestOwnTestsAreGradedWithLab(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	module := func(name, extra string) string {
		return "-- solutions/09-shop/go.mod --\nmodule lva.io/operators/solutions/09-shop\n\ngo 1.26\n" +
			"-- solutions/09-shop/cmd/main.go --\n" + samples.Program +
			"-- solutions/09-shop/a/a.go --\npackage a\n\nfunc Add(a, b int) int { return a + b }\n" +
			"-- solutions/09-shop/" + name + " --\n" + extra
	}
	root := samples.Lay(t, module("mutants.yaml", "skeleton:\n  fails: {a: b}\nmutants:\n"+
		"- {name: subtracts, misconception: It is the same., edits: [{file: a/a.go, find: a + b, replace: a - b}], "+
		"fails: {a: b}}\n"))
	dir := filepath.Join(samples.Lay(t, module("a/a_test.go", "package a\n\nimport \"testing\"\n\n"+
		"func TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fail()\n\t}\n}\n")), "solutions", "09-shop")
	lab := &manifest.Lab{Name: "09-shop", Number: 9, Tests: &manifest.OwnTests{Points: 8}}
	w := &work.Work{
		Checkout: &checkout.Checkout{Root: root, ControlPlane: repo.ControlPlane}, Lab: lab, Dir: dir, Out: t.TempDir(),
	}
	file := filepath.Join(w.Out, report.TestsJSONFile)
	// grade grades the submission, which writes planted into the folder while it runs. Empty: it writes nothing.
	grade := func(settings work.Options, outcome report.Outcome, planted string) (result *report.Report, revealed string) {
		t.Helper()
		result = &report.Report{Outcome: outcome, MaxScore: 92}
		if outcome == report.Graded {
			result.Score = 92
		}
		own := ForWork(w, settings)
		if err := own.Take(); err != nil {
			t.Fatal(err)
		}
		if planted != "" {
			if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var view steps
		if err := own.Grade(t.Context(), &view, result); err != nil {
			t.Fatal(err)
		}
		return result, strings.Join(view, "; ")
	}
	for _, step := range []struct {
		name     string
		how      work.Options
		outcome  report.Outcome
		score    int
		revealed string
	}{
		{"the operator was not graded", work.Options{}, report.Crashed, 0, ""},
		{
			"lab watch, before anything is known",
			work.Options{KnownTests: true},
			report.Graded, 92,
			ownTestsStep + "; done: ; own-tests skipped",
		},
		{
			"lab grade",
			work.Options{},
			report.Graded, 100,
			ownTestsStep + "; done: ; own-tests passed",
		},
		{
			"lab grade again",
			work.Options{},
			report.Graded, 100,
			ownTestsStep + "; done: known from an earlier run; own-tests passed",
		},
		{
			"lab watch",
			work.Options{KnownTests: true},
			report.Graded, 100,
			ownTestsStep + "; done: known from an earlier run; own-tests passed",
		},
	} {
		result, revealed := grade(step.how, step.outcome, "")
		if result.Score != step.score || result.MaxScore != 100 || revealed != step.revealed {
			t.Errorf("%s: %d of %d points, %q: %+v", step.name, result.Score, result.MaxScore, revealed, result.Checks)
		}
	}

	known, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Files that the submission writes there do not count as known results, neither in this run nor in the next.
	for _, outcome := range []report.Outcome{report.Crashed, report.Graded} {
		grade(work.Options{KnownTests: true}, outcome, "{}")
		if now, err := os.ReadFile(file); err != nil || string(now) != string(known) {
			t.Errorf("after a run with outcome %s: known results = %s (error %v)", outcome, now, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		result, _ := grade(work.Options{KnownTests: true}, outcome, string(known))
		if _, err := os.Stat(file); result.Score > 92 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after a run with outcome %s: a file of the submission was used: %+v (error %v)", outcome, result, err)
		}
		if err := os.WriteFile(file, known, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A submission outside of the checkout may be another person's, and may have run before.
	w.Foreign = true
	result, _ := grade(work.Options{KnownTests: true}, report.Graded, "")
	own := result.Checks[len(result.Checks)-1]
	want := "skipped: the tests of a folder outside of the checkout are run by `" + w.Command("grade") + "`"
	if result.Score != 92 || own.Reason != want {
		t.Errorf("a submission outside of the checkout: got %+v, want the reason %q", own, want)
	}
	result, revealed := grade(work.Options{}, report.Graded, "")
	if want := ownTestsStep + "; done: ; own-tests passed"; result.Score != 100 || revealed != want {
		t.Errorf("lab grade --dir: got %d points and %q, want %q", result.Score, revealed, want)
	}
}

// The tests of a submission run as this user, too.
func TestRunRemovesPlantedTestReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{report.TestsJSONFile, report.TestsHTMLFile} {
		if err := errors.Join(
			os.MkdirAll(filepath.Join(dir, name, "blocker"), 0o755), os.Chmod(filepath.Join(dir, name), 0o555),
		); err != nil {
			t.Fatal(err)
		}
	}
	lab := &manifest.Lab{Name: "02-pancake", Title: "Pancakes", Tests: &manifest.OwnTests{}}
	if err := formats.WriteTests(dir, Blank(&Options{Lab: lab, Dir: dir})); err != nil {
		t.Error(err)
	}
	if read, err := report.ReadTests(filepath.Join(dir, report.TestsJSONFile)); err != nil ||
		read.Outcome != report.Unfinished {
		t.Errorf("got report %+v, error %v", read, err)
	}
}
