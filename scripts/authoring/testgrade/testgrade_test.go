// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

const root = "../../.."

func options(t *testing.T, dir string, only ...string) Options {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := repo.Labs.Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	assets, err := repo.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return Options{Lab: lab, Dir: dir, Solution: repo.SolutionDir(lab), Assets: assets, Only: only}
}

// copySolution copies solution 02 and replaces its tests by the given ones.
func copySolution(t *testing.T, tests map[string]string) string {
	t.Helper()
	opened, err := submission.Open(filepath.Join(root, "solutions", "02-reconciler"), "")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := errors.Join(opened.Copy(dir),
		removeTests(&submission.Submission{Dir: dir}), removeTestsBelow(dir)); err != nil {
		t.Fatal(err)
	}
	for name, content := range tests {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func removeTestsBelow(dir string) error {
	opened, err := submission.Open(dir, "")
	if err != nil {
		return err
	}
	return removeTests(opened)
}

// sample lists mutants of many kinds: of plain Go, of Reconcile, of its callers, and one that changes only markers.
// (All 44 take minutes: see docs/guides/testing-operators.md for their figures.)
var sample = []string{
	"keeps-two", "first-of-a-tie-goes", "letters-of-the-toppings", "status-each-time",
	"conflict-is-logged", "trusts-the-cache", "misses-deletions", "secrets-too",
}

func TestStrongTestsFindMoreMutants(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	good := Run(t.Context(), options(t, filepath.Join(root, "solutions", "02-reconciler"), sample...))
	// Tests of a running manager depend on the order of events, so they may miss a mutant on a busy machine.
	if !good.FullMarks() || good.Count(report.MutantFound) < len(sample)-2 || good.Count(report.MutantUnseen) != 1 {
		t.Errorf("the solution's own tests: %s: %s %s", good.Headline(), good.Reason, good.Summary())
	}
	for _, m := range good.Mutants {
		t.Logf("the solution's own tests: %s is %s by %s", m.Name, m.Fate, m.By)
	}
	content, err := os.ReadFile(filepath.Join("testdata", "weak_test.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	weak := Run(t.Context(), options(t, copySolution(t, map[string]string{
		"internal/controller/weak_test.go": string(content),
	}), sample...))
	// The tests can only detect that two are kept.
	if weak.FullMarks() || weak.Outcome != report.Graded || weak.Count(report.MutantFound) != 1 ||
		weak.Count(report.MutantMissed) != len(sample)-2 {
		t.Errorf("the weak test: %s: %s %s", weak.Headline(), weak.Reason, weak.Summary())
	}
	for _, m := range weak.Mutants {
		if (m.Fate == report.MutantFound) != (m.Name == "keeps-two") {
			t.Errorf("the weak test: %s is %s by %s", m.Name, m.Fate, m.By)
		}
	}
	Hide(weak, func(name string) bool { return name == "trusts-the-cache" })
	for _, m := range weak.Mutants {
		revealed := slices.Contains([]string{"keeps-two", "trusts-the-cache"}, m.Name)
		if (m.Misconception != "") != revealed || (m.Name != "") != revealed {
			t.Errorf("details of a missed mutant are wrongly shown or hidden: %+v", m)
		}
	}
}

func TestTestsFailingOnSolutionFindNothing(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for _, test := range []struct {
		name, content, reason string
		outcome               report.Outcome
	}{
		{
			"it always fails", "func TestNever(t *testing.T) { t.Error(\"never\") }",
			"your tests fail on our operator, which is right (TestNever)", report.NotBuilt,
		},
		{
			"it skips itself", "func TestLater(t *testing.T) { t.Skip() }",
			"no test was run, and 1 skip themselves", report.NotBuilt,
		},
		// The test looks at something that is the same on our operator and on a mutant.
		{"it fails if it mistakes our operator for a mutant", `import (
	"flag"
	"os"
	"path/filepath"
	"strings"
)

func TestTells(t *testing.T) {
	executable, _ := os.Executable()
	sources, _ := filepath.Glob("*.go")
	if len(sources) == 0 || strings.Contains(executable, "mutant") || flag.Lookup("test.failfast").Value.String() == "true" {
		t.Fatalf("I am on a mutant: %s, %q", executable, sources)
	}
}`, "your tests fail on our operator, which is right (TestTells)", report.NotBuilt},
		{
			"it uses code that only one operator has", "func TestMine(t *testing.T) { mine() }",
			"your tests do not compile with our operator", report.NotBuilt,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := copySolution(t, map[string]string{
				"internal/controller/own_test.go": "package controller\n\nimport \"testing\"\n\n" + test.content + "\n",
			})
			got := Run(t.Context(), options(t, dir, sample...))
			if got.Outcome != test.outcome || !strings.Contains(got.Reason, test.reason) ||
				got.FullMarks() || got.Count(report.MutantFound) != 0 {
				t.Errorf("got outcome %s: %s", got.Outcome, got.Reason)
			}
		})
	}
}

func TestUnseenMutants(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- a/a.go --\npackage a\n\n// +kubebuilder:rbac:verbs=get\nfunc A() int { return 1 }\n"+
		"-- config/a.yaml --\nkind: A\n-- a/a_test.go --\npackage a\n")
	edit := func(file, find, replace string) mutant.Edit {
		return mutant.Edit{File: file, Find: find, Replace: replace}
	}
	for _, test := range []struct {
		name       string
		edits      []mutant.Edit
		untestable string
		folders    []string
		unseen     string
	}{
		{
			name:    "code",
			edits:   []mutant.Edit{edit("a/a.go", "return 1", "return 2"), edit("a/a_test.go", "package a", "package b")},
			folders: []string{"a"},
		},
		{
			name:    "code and a marker",
			edits:   []mutant.Edit{edit("a/a.go", "return 1", "return 2"), edit("a/a.go", "verbs=get", "verbs=*")},
			folders: []string{"a"},
		},
		{
			name: "a marker", edits: []mutant.Edit{edit("a/a.go", "verbs=get", "verbs=*")},
			unseen: "it changes markers or manifests only, which no Go test runs",
		},
		{
			name: "a manifest", edits: []mutant.Edit{edit("config/a.yaml", "A", "B")},
			unseen: "it changes markers or manifests only, which no Go test runs",
		},
		{
			name: "the program", edits: []mutant.Edit{edit("cmd/main.go", "main() {}", "main() { main() }")},
			unseen: "it changes package main, which tests do not run",
		},
		{
			name: "code, excluded", edits: []mutant.Edit{edit("a/a.go", "return 1", "return 2")},
			untestable: "it is slow", folders: []string{"a"}, unseen: "it is slow",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := changeOf(&mutant.Mutant{
				Name: test.name, Edits: test.edits, Untestable: test.untestable,
			}, dir, []string{"cmd"})
			if err != nil || !slices.Equal(got.folders, test.folders) || got.unseen != test.unseen {
				t.Errorf("got %+v, error %v", got, err)
			}
			if slices.ContainsFunc(got.edits, func(e mutant.Edit) bool { return strings.HasSuffix(e.File, "_test.go") }) {
				t.Error("changeOf() includes an edit of a test")
			}
		})
	}
}

// The submission has an older layout: controllers/ beside api/, packages with other names, a package of helpers, and
// testdata.
func TestTestsOfAnotherLayoutAreCopied(t *testing.T) {
	t.Parallel()
	theirs := samples.Lay(t, samples.Module+"-- main.go --\n"+samples.Program+
		"-- apis/v1/v1.go --\npackage v1\n\ntype A struct{}\n-- controllers/c.go --\npackage controllers\n"+
		"-- controllers/c_test.go --\npackage controllers_test\n\nimport (\n\t\"testing\"\n\n"+
		"\tv1 \"example.com/icecream/apis/v1\"\n\t\"example.com/icecream/controllers\"\n"+
		"\t\"example.com/icecream/internal/help\"\n)\n\n"+
		"func TestC(t *testing.T) { help.Do(v1.A{}, controllers.C) }\n-- controllers/testdata/x.txt --\nx\n"+
		"-- internal/help/help.go --\npackage help\n\nimport _ \"example.com/icecream/apis/v1\"\n\nfunc Do(...any) {}\n"+
		"-- shop/s_test.go --\npackage shop\n-- shop/s.go --\npackage shop\n")
	ours := samples.Lay(t, "-- go.mod --\nmodule lva.io/ours\n\ngo 1.26\n-- cmd/main.go --\n"+samples.Program+
		"-- api/v1/v1.go --\npackage v1\n\ntype A struct{}\n"+
		"-- internal/controller/c.go --\npackage controller\n\nvar C int\n"+
		"-- internal/controller/c_test.go --\npackage controller\n\nfunc broken(\n")
	const odd = "Entw\xfcrfe.txt" // in Latin-1, which is not valid in UTF-8
	if err := os.WriteFile(filepath.Join(theirs, "controllers", "testdata", odd), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := submission.Open(theirs, "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := submission.Open(ours, "")
	if err != nil {
		t.Fatal(err)
	}
	tested, notices, err := copyTests(from, to)
	if err != nil || len(tested) != 1 || tested[0] != (testedPackage{folder: "internal/controller", runs: "controllers"}) {
		t.Fatalf("copyTests() = %+v, error %v", tested, err)
	}
	if len(notices) != 1 ||
		!strings.HasPrefix(notices[0], "shop has no counterpart in our solution, which has api/v1, internal/controller") {
		t.Errorf("got notices %q", notices)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer scope.Close()
	if err := (&submission.Builder{Submission: to, Scope: scope}).CompileTests(t.Context(),
		"internal/controller", filepath.Join(scope.Dir, "c.test"), false); err != nil {
		t.Errorf("the copied tests do not compile: %v", err)
	}
	for _, name := range []string{"x.txt", odd} {
		if _, err := os.Stat(filepath.Join(ours, "controllers", "testdata", name)); err != nil {
			t.Error(err)
		}
	}
}

func TestHoldBackRemovesVersion(t *testing.T) {
	t.Parallel()
	const definition = "kind: CustomResourceDefinition\nmetadata:\n  name: shops.example.com\n" +
		"spec:\n  versions:\n  - name: v1alpha1\n    served: true\n    storage: %t\n"
	dir := samples.Lay(t, samples.Module+"-- main.go --\n"+samples.Program+
		"-- config/crd/bases/shops.yaml --\n"+fmt.Sprintf(definition, false)+
		"  - name: v1beta1\n    served: true\n    storage: true\n")
	opened, err := submission.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := holdBack(opened, "v1beta1"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "config", "crd", "bases", "shops.yaml"))
	if want := fmt.Sprintf(definition, true); err != nil || string(content) != want {
		t.Errorf("got definition %s (%v), want %s", content, err, want)
	}
}

func TestCheckOfLab(t *testing.T) {
	t.Parallel()
	of := &manifest.Lab{Number: 9, Lecture: "docs/lectures/09-shop.md", Tests: &manifest.OwnTests{Points: 10, Find: 50}}
	run := &report.TestRun{Passed: true, Tests: 1}
	tests := func(change func(*report.Tests), fates ...report.MutantFate) *report.Tests {
		made := &report.Tests{Outcome: report.Graded, Own: run, Ours: run, Want: 50}
		for _, fate := range fates {
			made.Mutants = append(made.Mutants, report.TestedMutant{Fate: fate})
		}
		change(made)
		return made
	}
	same := func(*report.Tests) {}
	for _, test := range []struct {
		name     string
		outcome  report.Outcome
		tests    *report.Tests
		status   report.Status
		points   int
		observed string
	}{
		{
			"half is required, and half was found", report.Graded, tests(same, report.MutantFound, report.MutantMissed),
			report.Passed, 10, "",
		},
		{
			"less than half was found", report.Graded, tests(same, report.MutantFound, report.MutantMissed, report.MutantMissed),
			report.Failed, 0, "they fail on 1 of 3 (33 %)",
		},
		{
			"mutants that do not count are ignored", report.Graded,
			tests(same, report.MutantFound, report.MutantUnseen, report.MutantUntried),
			report.Passed, 10, "",
		},
		{"nothing counts", report.Graded, tests(same, report.MutantUnseen), report.Failed, 0, "they fail on 0 of 0 (0 %)"},
		{
			"they fail on the student's operator", report.Graded, tests(func(t *report.Tests) {
				t.Own = &report.TestRun{Tests: 1, Failed: []string{"TestA"}, Seconds: 2}
			}, report.MutantFound),
			report.Failed, 0, "on your own operator they fail: TestA (1 test, 2 s)",
		},
		{
			"they were not tried", report.Graded, tests(func(t *report.Tests) {
				t.Outcome, t.Reason, t.Own = report.TimedOut, "the time was up", nil
			}, report.MutantFound),
			report.Failed, 0, "the time was up",
		},
		{
			"too few mutants can be found", report.Graded,
			tests(same, report.MutantMissed, report.MutantMissed, report.MutantUntried),
			report.Failed, 0, "they fail on 0 of 2 (0 %); 1 more were not tried",
		},
		{
			"without results", report.Graded, tests(func(t *report.Tests) { t.Outcome = report.Unfinished }),
			report.Skipped, 0, "",
		},
		{
			"the machine failed", report.Graded, tests(func(t *report.Tests) { t.Outcome = report.Error }),
			report.Skipped, 0, "",
		},
		{"the operator was not graded", report.Crashed, nil, report.Skipped, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &report.Report{Outcome: test.outcome, Score: 50, MaxScore: 90}
			Add(r, test.tests, of)
			got := r.Checks[0]
			if machine := test.tests != nil && test.tests.Outcome == report.Error; machine != (r.Outcome == report.Error) {
				t.Errorf("the run has the outcome %s", r.Outcome)
			}
			if got.Status != test.status || got.Points != test.points || got.Observed != test.observed ||
				r.Score != 50+test.points || r.MaxScore != 100 {
				t.Errorf("got check %+v, score %d of %d", got, r.Score, r.MaxScore)
			}
		})
	}
}

// shop returns a lab whose solution adds. Two of its mutants do not add.
func shop(t *testing.T) (lab *manifest.Lab, solution string) {
	t.Helper()
	const adds = "-- go.mod --\nmodule lva.io/operators/solutions/09-shop\n\ngo 1.26\n" +
		"-- cmd/main.go --\n" + samples.Program +
		"-- a/a.go --\npackage a\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n"
	mutants := "skeleton:\n  fails: {a: b}\nmutants:\n"
	for name, operator := range map[string]string{"subtracts": "-", "multiplies": "*"} {
		mutants += "- {name: " + name + ", misconception: It is the same., " +
			"edits: [{file: a/a.go, find: a + b, replace: a " + operator + " b}], fails: {a: b}}\n"
	}
	return &manifest.Lab{Name: "09-shop", Number: 9, Tests: &manifest.OwnTests{Points: 10}},
		samples.Lay(t, adds+"-- mutants.yaml --\n"+mutants)
}

// submitted creates a submission to that lab, with its operator and its test.
func submitted(t *testing.T, operator, test string) string {
	t.Helper()
	return samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- a/a.go --\npackage a\n\nfunc Add(a, b int) int { "+operator+" }\n"+
		"-- a/a_test.go --\npackage a\n\nimport \"testing\"\n\n"+
		"func TestAdd(t *testing.T) {\n\tif "+test+" {\n\t\tt.Fail()\n\t}\n}\n")
}

func TestKnownResultsAreReused(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	lab, solution := shop(t)
	var ran []string
	run := func(dir string, known *report.Tests, only bool) *report.Tests {
		ran = nil
		return Run(t.Context(), Options{
			Lab: lab, Dir: dir, Solution: solution, Known: known, OnlyKnown: only, Parallel: 1,
			Progress: func(what string, _, _ int) { ran = append(ran, what) },
		})
	}
	const right, strong = "return a + b", "Add(2, 3) != 5"
	if got := run(submitted(t, right, strong), nil, true); got.Outcome != report.Unfinished || len(ran) > 0 {
		t.Errorf("with nothing known, no tests may run: got %+v after %q", got, ran)
	}
	first := run(submitted(t, right, strong), nil, false)
	if !first.FullMarks() || first.Known || first.Share() != 100 {
		t.Fatalf("first run = %+v", first)
	}
	if got := run(submitted(t, right, strong), first, true); !got.FullMarks() || !got.Known || len(ran) > 0 {
		t.Errorf("after no change: got %+v after %q", got, ran)
	}
	wrong := submitted(t, "return a - b", strong)
	if got := run(wrong, first, true); got.Outcome != report.Unfinished || len(ran) > 0 {
		t.Errorf("with a changed operator, no tests may run: got %+v after %q", got, ran)
	}
	if got := run(wrong, first, false); got.FullMarks() || !got.Known || got.Own.Passed ||
		!slices.Equal(ran, []string{"your tests on your operator"}) {
		t.Errorf("with a changed operator: got %+v after %q", got, ran)
	}
	for i, known := range []*report.Tests{nil, run(submitted(t, right, "true"), nil, false)} {
		got := run(submitted(t, right, "true"), known, false)
		if got.Outcome != report.NotBuilt || got.Known != (i > 0) || (len(ran) == 0) != got.Known ||
			!strings.Contains(got.Reason, "(TestAdd)") {
			t.Errorf("with a test that fails on a correct operator: got %+v after %q", got, ran)
		}
	}
	if got := run(submitted(t, right, "Add(2, 3) < 5"), first, false); got.FullMarks() || got.Known ||
		got.Share() != 50 || !slices.Contains(ran, "mutants") {
		t.Errorf("with a changed test: got %+v after %q", got, ran)
	}
}

func TestRunEndsWhenOutcomeIsDecided(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	lab, solution := shop(t)
	for _, test := range []struct {
		find int
		test string
		full bool
	}{{50, "Add(2, 3) != 5", true}, {80, "false", false}} {
		lab.Tests.Find = test.find
		got := Run(t.Context(), Options{
			Lab: lab, Dir: submitted(t, "return a + b", test.test), Solution: solution, Decide: true, Parallel: 1,
		})
		if got.Outcome != report.Graded || got.FullMarks() != test.full || got.Count(report.MutantUntried) != 1 {
			t.Errorf("with %d %% of two mutants required: %+v", test.find, got)
		}
	}
}
