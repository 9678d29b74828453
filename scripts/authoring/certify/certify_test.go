// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
)

func TestDeviations(t *testing.T) {
	t.Parallel()
	graded := func(first, second report.Status, observed string) *report.Report {
		r := &report.Report{Lab: "01-shop", Outcome: report.Graded, MaxScore: 100}
		for i, status := range []report.Status{first, second} {
			check := report.Check{
				ID: []string{"open", "clean"}[i], Status: status, MaxPoints: 50, Reason: "skipped: it needs open, which failed",
			}
			if status == report.Passed {
				check.Points, r.Score = 50, r.Score+50
			}
			if status == report.Failed {
				check.Expected, check.Observed, check.Evidence = "the shop is open", observed, []string{"GET /door"}
			}
			r.Checks = append(r.Checks, check)
		}
		return r
	}
	broken := graded(report.Passed, report.Skipped, "")
	broken.Outcome, broken.Reason = report.NotBuilt, "it does not compile"
	broken.Diagnostics = []report.Diagnostic{{File: "shop.go", Line: 3, Message: "undefined: door"}}
	crashed := graded(report.Failed, report.Passed, "it is closed")
	crashed.Outcome, crashed.Reason, crashed.OperatorLog = report.Crashed, "it ended by itself", []string{"panic: closed"}

	both := map[string]string{"open": "closed", "clean": "closed"}
	caused := graded(report.Failed, report.Failed, "it is closed")
	caused.Checks[0].Causes = []string{"clean"}

	for _, test := range []struct {
		name   string
		report *report.Report
		fails  map[string]string
		// want has words of each deviation, in their order.
		want []string
		// explained is the check that must be explained first.
		explained string
	}{
		{"full marks as expected", graded(report.Passed, report.Passed, ""), nil, nil, ""},
		{
			"a solution that fails", graded(report.Passed, report.Failed, "dust"), nil,
			[]string{
				"50 of 100 points",
				"clean must not fail:\n  expected: the shop is open\n  observed: dust\n  evidence: GET /door",
			},
			"",
		},
		{
			"a mutant that fails for its reason", graded(report.Failed, report.Passed, "it is closed"),
			map[string]string{"open": "closed$"},
			nil, "",
		},
		{
			"its dependent is skipped", graded(report.Failed, report.Skipped, "it is closed"),
			map[string]string{"open": "closed$"},
			nil, "",
		},
		{
			"a mutant that fails for another reason", graded(report.Failed, report.Passed, "it burnt down"),
			map[string]string{"open": "closed$"},
			[]string{`open fails for a reason other than "closed$"`},
			"",
		},
		{
			"a mutant that survives", graded(report.Passed, report.Passed, ""),
			map[string]string{"open": "closed"},
			[]string{"open must fail, but it was passed"},
			"",
		},
		{
			"a mutant whose check never ran", graded(report.Failed, report.Skipped, "x"),
			map[string]string{"open": "x", "clean": "dust"},
			[]string{"clean must fail, but it was skipped skipped: it needs open"},
			"",
		},
		{
			"a mutant that fails an additional check", graded(report.Failed, report.Failed, "it is closed"),
			map[string]string{"open": "closed"},
			[]string{"clean must not fail"},
			"",
		},
		{
			"a mutant that does not compile", broken,
			map[string]string{"open": "closed"},
			[]string{"the outcome is not-built: it does not compile", "shop.go:3: undefined: door"},
			"",
		},
		{
			"a mutant that crashes, although the expected check fails", crashed,
			map[string]string{"open": "closed"},
			[]string{"the outcome is crashed", "panic: closed"},
			"",
		},
		{"an explained cause", caused, both, nil, "clean"},
		{
			"a cause that is not explained", graded(report.Failed, report.Failed, "it is closed"), both,
			[]string{"open is explained first, want clean"},
			"clean",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := mutant.Expectation{Fails: test.fails, Explained: test.explained}.Deviations(test.report)
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("deviations = %q, want them to contain %q", got, test.want)
			}
		})
	}
}

// The skeleton of a lab that begins nearly empty is no operator.
func TestDeviationsWithoutGrade(t *testing.T) {
	t.Parallel()
	wanted := mutant.Expectation{Outcome: string(report.NotStarted)}
	if got := wanted.Deviations(&report.Report{Outcome: report.NotStarted}); len(got) > 0 {
		t.Errorf("deviations of a skeleton that ends as expected: %q", got)
	}
	want := []string{"the outcome is graded, want not-started"}
	if got := wanted.Deviations(&report.Report{Outcome: report.Graded}); !slices.Equal(got, want) {
		t.Errorf("deviations of a graded skeleton = %q, want %q", got, want)
	}
}

func TestTortureDeviations(t *testing.T) {
	t.Parallel()
	survived := &grade.Trials{Run: report.Report{Outcome: report.Graded, Seed: 7}, Tried: 3, Of: 3}
	kill := faults.Schedule{Faults: []faults.Fault{{Kind: faults.KillAfter, Class: faults.Write, At: 3}}}
	fell := &grade.Trials{Run: report.Report{Outcome: report.Graded, Seed: 7}, Tried: 2, Of: 3, Failure: &grade.Failure{
		Schedule: kill, Expected: "the shop is open", Observed: "it is closed",
		Timeline: []faults.Entry{{
			Service: faults.API, Verb: "update", Resource: "icecreams", Name: "sundae", Code: 200,
			Write: true, Number: 3, Fault: faults.KillAfter,
		}},
	}}
	crashed := &grade.Trials{
		Run: report.Report{Outcome: report.Crashed, Reason: "it ended by itself", Seed: 7}, Tried: 2, Of: 3,
		Failure: &grade.Failure{Schedule: kill, Observed: "it ended by itself: exit status 2"},
	}
	unbuilt := &grade.Trials{Run: report.Report{
		Outcome: report.NotBuilt, Reason: "it does not compile", OperatorLog: []string{"hm"},
	}}
	for _, test := range []struct {
		name    string
		trials  *grade.Trials
		failsAs string
		// want has words of each deviation, in their order.
		want []string
	}{
		{"a solution that survives", survived, "", nil},
		{"a solution that fails", fell, "", []string{
			"in the torture with seed 7 it fails under [kill-after write 3]\n" +
				"  expected: the shop is open\n  observed: it is closed\n",
		}},
		{"with the preceding faults", fell, "", []string{"update icecreams sundae → 200 OK (write 3, kill-after)"}},
		{"a mutant that fails for its reason", fell, "closed$", nil},
		{"a mutant that survives", survived, "closed$", []string{
			`it survives the torture with seed 7, and must fail with "closed$"`,
		}},
		{"a mutant that fails for another reason", fell, "burnt", []string{"fails under [kill-after write 3]"}},
		{"a mutant that crashes, as expected", crashed, "exit status 2", nil},
		{"a solution that crashes", crashed, "", []string{"fails under [kill-after write 3]"}},
		{"a mutant that was never tortured", unbuilt, "closed", []string{
			"the torture ended as not-built: it does not compile", "hm",
		}},
		{"a solution that was never tortured", unbuilt, "", []string{
			"the torture ended as not-built: it does not compile", "hm",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := tortureDeviations(test.trials, test.failsAs)
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("deviations = %q, want them to contain %q", got, test.want)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	for i := range repo.Labs.Labs {
		options := Options{Checkout: repo, Lab: &repo.Labs.Labs[i]}
		all, err := options.candidates()
		if err != nil {
			t.Fatal(err)
		}
		if len(all) < 2+8 || all[0].name != "skeleton" || all[1].name != "solution" {
			t.Errorf("lab %s: want skeleton, solution and at least eight mutants, got %d candidates", options.Lab.Name, len(all))
		}
		tortured := all[2].name == "torture" && all[2].torture && all[2].ungraded && all[2].failsAs == ""
		if tortured != (options.Lab.Operator && !options.deployed()) {
			t.Errorf("lab %s has an operator: %t, its checks deploy it: %t, and its solution is tortured: %t",
				options.Lab.Name, options.Lab.Operator, options.deployed(), tortured)
		}
		options.Only = []string{all[2].name, "skeleton"}
		some, err := options.candidates()
		if err != nil || len(some) != 2 || some[0].name != "skeleton" || some[1].name != all[2].name {
			t.Errorf("lab %s with Only %v: candidates = %v, error %v", options.Lab.Name, options.Only, some, err)
		}
		options.Only = []string{"soluton"}
		if _, err := options.candidates(); err == nil ||
			!strings.Contains(err.Error(), `no submission "soluton" to certify; there are skeleton, solution, `) {
			t.Errorf("candidates of a missing submission: error = %v", err)
		}
	}
}

func TestOnlyMutantsGetSecondAttempt(t *testing.T) {
	t.Parallel()
	mutant, right := candidate{name: "counts-letters", misconception: "a letter is a topping"}, candidate{name: "solution"}
	bad := []string{"three-stay must fail, but it was passed"}
	for _, test := range []struct {
		name      string
		candidate candidate
		come      [][]string
		want      string
	}{
		{"found at once", mutant, [][]string{nil}, "ok"},
		{"found later", mutant, [][]string{bad, nil}, "2nd"},
		{"never found", mutant, [][]string{bad, bad}, "FAIL"},
		{"a correct solution", right, [][]string{nil}, "ok"},
		{"a correct solution that fails once", right, [][]string{bad}, "FAIL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			attempts := 0
			deviations, before, err := test.candidate.attempt(false, func(attempt int) ([]string, error) {
				attempts++
				if attempt != attempts || attempt > len(test.come) {
					t.Fatalf("got attempt %d as number %d of %d", attempt, attempts, len(test.come))
				}
				return test.come[attempt-1], nil
			})
			options := Options{Lab: &manifest.Lab{Name: "02-reconciler"}}
			verdict := options.verdict(test.candidate, time.Second, result{deviations: deviations, before: before})
			if err != nil || !strings.HasPrefix(verdict, test.want+" ") || attempts != len(test.come) {
				t.Errorf("after %d attempts: error %v, verdict\n%s", attempts, err, verdict)
			}
			if reported := strings.Contains(verdict, bad[0]); reported != (test.want != "ok") {
				t.Errorf("the verdict must list the deviations exactly if it is not ok:\n%s", verdict)
			}
		})
	}
	if _, _, err := mutant.attempt(false, func(int) ([]string, error) {
		return nil, io.ErrUnexpectedEOF
	}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got error %v, want io.ErrUnexpectedEOF", err)
	}
}

// With one slot and several rounds, a slot that is not released would block the next round forever.
func TestInterruptedCertificationEnds(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	done := make(chan error, 1)
	go func() {
		done <- Lab(ctx, Options{
			Checkout: repo, Lab: &repo.Labs.Labs[0], Only: []string{"solution"}, Repeat: 5, Out: io.Discard,
		})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, why) {
			t.Errorf("interrupted with %v: Lab() error = %v", why, err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Lab did not return within 30 s of the interrupt")
	}
}

// The programs of a load compute until their scope is closed.
func TestLoadUsesCPU(t *testing.T) {
	t.Parallel()
	used := func() time.Duration {
		var ended syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ended.Utime.Nano())
	}
	const enough = 200 * time.Millisecond
	before := used()
	for giveUp := time.Now().Add(20 * time.Second); used() < before+enough; {
		if time.Now().After(giveUp) {
			t.Fatalf("the programs used %s of CPU time in 20 s", used()-before)
		}
		scope, err := process.NewScope(process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		busy := (&Options{Load: 2}).keepBusy(scope)
		<-time.After(enough) // each program has its share of this time on the processors
		if err := errors.Join(busy, scope.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A design edits text of the solution, and that text may change. This test finds such a change before anything is
// graded.
func TestDesignsApplyToSolutions(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for i := range repo.Labs.Labs {
		lab := &repo.Labs.Labs[i]
		all, err := designs(repo.Root, lab.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			tried[d.name] = true
			dir := filepath.Join(t.TempDir(), d.name)
			if err := errors.Join(os.CopyFS(dir, os.DirFS(repo.SolutionDir(lab))), d.apply(dir)); err != nil {
				t.Errorf("lab %s: %v", lab.Name, err)
			}
			for _, file := range d.files {
				if content, err := os.ReadFile(filepath.Join(dir, file.Name)); err != nil || !bytes.Equal(content, file.Data) {
					t.Errorf("design %s: apply did not write %s: %v", d.name, file.Name, err)
				}
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(repo.Root, designsDir, "*"))
	if err != nil || len(files) != len(tried) || len(tried) < 6 {
		t.Errorf("got %d files and these designs of labs: %v, error %v", len(files), tried, err)
	}
}

func TestDesignErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ archive, want string }{
		"without a lab":         {"design: x\n-- a.go --\n", "needs labs"},
		"without a sentence":    {"labs: [01-x]\n-- a.go --\n", "needs labs, a sentence"},
		"that changes nothing":  {"labs: [01-x]\ndesign: x\n", "edits or files"},
		"with an unknown field": {"lab: 01-x\ndesign: x\n-- a.go --\n", `unknown field "lab"`},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, filepath.FromSlash(designsDir))
		if err := errors.Join(os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "wrong.txtar"), []byte(test.archive), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := designs(root, "01-x"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("a design %s: designs() error = %v", name, err)
		}
	}
	d := design{name: "x", Replaces: []string{"cmd"}}
	if err := d.apply(t.TempDir()); err == nil {
		t.Error("apply() succeeded with a missing folder in Replaces")
	}
}
