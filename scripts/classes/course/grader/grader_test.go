// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grader

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/classes/course"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// newTestGrader creates a grader of some labs, which starts nothing before the first run.
func newTestGrader(t *testing.T, names ...string) *Grader {
	t.Helper()
	root, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	var labs []certify.Options
	for _, name := range names {
		lab, err := root.Labs.Lab(name)
		if err != nil {
			t.Fatal(err)
		}
		labs = append(labs, certify.Options{Checkout: root, Lab: lab})
	}
	g, err := New(t.Context(), Options{Labs: labs, Sandbox: grade.SandboxOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestMissingModulesAreReported checks that a missing module ends the run before it begins. The reason is either the
// student or the network.
func TestMissingModulesAreReported(t *testing.T) {
	t.Parallel()
	g := newTestGrader(t, "01-icecream")
	dir := t.TempDir()
	module := "module example.com/ada\n\ngo 1.26\n\nrequire example.com/nobody/has/this v1.0.0\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"),
			[]byte("package main\n\nimport _ \"example.com/nobody/has/this\"\n\nfunc main() {}\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	job := course.Job{Key: course.Key{Lab: "01-icecream"}, Dir: dir}
	for _, c := range []struct {
		err  error
		want report.Outcome
	}{
		{&submission.Problem{Reason: "its go.mod does not fit its code"}, report.NotBuilt},
		{&submission.EnvironmentError{Reason: "the module proxy does not answer"}, report.Error},
		{errors.New("the disk is full"), report.Error},
	} {
		g.unfetched[dir] = c.err
		r := g.Grade(t.Context(), job, 1, nil)
		if r.Outcome != c.want || !strings.Contains(r.Reason, c.err.Error()) {
			t.Errorf("%v: %s, %q", c.err, r.Outcome, r.Reason)
		}
		if _, err := r.JSON(); err != nil {
			t.Error(err)
		}
	}
}

func TestBlankReportHasAllChecks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"01-icecream", "02-reconciler"} {
		g := newTestGrader(t, name)
		if r := g.Blank(course.Job{Key: course.Key{Lab: name}, Dir: t.TempDir()}); r.MaxScore != 100 || len(r.Checks) == 0 {
			t.Errorf("%s: %d points in %d checks", name, r.MaxScore, len(r.Checks))
		}
	}
}

// TestLabsShareControlPlanes checks that labs without a node share control planes, so that there are no more control
// planes than slots.
func TestLabsShareControlPlanes(t *testing.T) {
	t.Parallel()
	g := newTestGrader(t, "01-icecream", "02-reconciler")
	if g.labs["01-icecream"].pool != g.labs["02-reconciler"].pool {
		t.Error("each lab has its own pool")
	}
	icecreamLab := g.labs["01-icecream"]
	_, first := g.lend(icecreamLab)
	_, second := g.lend(g.labs["02-reconciler"])
	first()
	second()
	if icecreamLab.running != 0 || g.labs["02-reconciler"].running != 0 {
		t.Errorf("%d and %d runs", icecreamLab.running, g.labs["02-reconciler"].running)
	}
}
