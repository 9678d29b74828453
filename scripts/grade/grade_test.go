// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/report"
)

// TestMain gives these tests a temporary folder of their own, so that they can say whether a run left anything behind.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		temporary, err := os.MkdirTemp("", "grade-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(temporary)
		os.Setenv("TMPDIR", temporary)
		code := m.Run()
		if left := leftovers(temporary); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "the runs left behind:\n%s\n", strings.Join(left, "\n"))
			return 1
		}
		return code
	}())
}

// leftovers are run folders, and processes that were started from them or with them in their environment.
func leftovers(temporary string) []string {
	left, _ := filepath.Glob(filepath.Join(temporary, "operator-labs-*", "*"))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if filepath.Base(process) == fmt.Sprint(os.Getpid()) {
			continue
		}
		// One that ended meanwhile has neither.
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		if strings.Contains(string(command)+string(environment), temporary) {
			left = append(left, process+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left
}

// lay makes a submission in a folder: base.txtar, with what another file has instead. An empty file is one that is not
// there.
func lay(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, archive := range []string{"base", name} {
		parsed, err := txtar.ParseFile(filepath.Join("testdata", "submissions", archive+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range parsed.Files {
			path := filepath.Join(dir, filepath.FromSlash(file.Name))
			if len(file.Data) == 0 {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// digest is of all names, times and contents below a folder.
func digest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime())
		if entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		sum.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// programs are what a run needs besides a submission, of this checkout. They are built unless they are there.
var programs = sync.OnceValues(func() (*built, error) {
	here, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	b := &built{Checkout: here, checks: map[string]string{}}
	ctx := context.Background()
	if err := here.EnsureControlPlane(ctx); err != nil {
		return nil, err
	}
	if b.controllerGen, err = here.ControllerGen(ctx); err != nil {
		return nil, err
	}
	for i := range here.Labs.Labs {
		lab := &here.Labs.Labs[i]
		if b.checks[lab.Name], err = here.Checks(ctx, lab); err != nil {
			return nil, err
		}
	}
	return b, nil
})

type built struct {
	*checkout.Checkout
	controllerGen string
	checks        map[string]string
}

// options grade a folder for a lab as a student's.
func options(t *testing.T, lab, dir string) Options {
	t.Helper()
	have, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := have.Labs.Lab(lab)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Lab: listed, Dir: dir, ControllerGen: have.controllerGen, Checks: have.checks[listed.Name],
		OperatorLog: filepath.Join(t.TempDir(), "operator.log"),
		Start: func(ctx context.Context) (*embedded.Cluster, error) {
			cluster, err := embedded.Start(ctx, have.ControlPlane)
			if err == nil {
				t.Cleanup(func() { wantGone(t, cluster) })
			}
			return cluster, err
		},
	}
}

// wantGone is called when a run is over.
func wantGone(t *testing.T, cluster *embedded.Cluster) {
	t.Helper()
	if _, err := os.Stat(cluster.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster's folder is still there: %v", err)
	}
	for name, pid := range cluster.PIDs() {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("%s still runs", name)
		}
	}
}

// grade runs, and demands what must hold of every run: the report is whole and valid, and the submission untouched.
func grade(ctx context.Context, t *testing.T, options Options) *report.Report {
	t.Helper()
	before := digest(t, options.Dir)
	result := Run(ctx, options)
	if digest(t, options.Dir) != before {
		t.Error("the submission's folder was changed")
	}
	out := t.TempDir()
	if err := report.Write(out, *result); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(out, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(written); err != nil {
		t.Error(err)
	}
	junit, err := os.ReadFile(filepath.Join(out, report.JUnitFile))
	if err != nil || !strings.Contains(string(junit), "<testsuite ") {
		t.Errorf("the JUnit report is %q, %v", junit, err)
	}
	if len(result.Checks) != len(options.Lab.Checks) || result.MaxScore != options.Lab.MaxScore() {
		t.Errorf("the report has %d of %d checks", len(result.Checks), len(options.Lab.Checks))
	}
	return result
}

func TestSubmissions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		outcome report.Outcome
		// reason, log and notice are expressions that the reason, the operator's last lines and one of the notices match.
		reason, log, notice string
		// diagnostics begin so, with their positions.
		diagnostics []string
		// failed is the first check that failed.
		failed string
		change func(*Options)
	}{
		{
			name: "does-not-compile", outcome: report.NotBuilt, reason: "^it does not compile$",
			diagnostics: []string{"cmd/behaviour.go:3:18 undefined: watch", "cmd/behaviour.go:5:36 declared and not used: count", "cmd/behaviour.go:5:48 cannot use name"},
		},
		{name: "no-module", outcome: report.NotBuilt, reason: "has no go.mod: name the folder of a Go module"},
		{name: "no-program", outcome: report.NotBuilt, reason: "there is no program: package main must be in cmd/ or in the module's root"},
		{name: "missing-module", outcome: report.NotBuilt, reason: "are not on this machine: grade it with --fetch", diagnostics: []string{"cmd/behaviour.go:3:8 "}},
		{name: "untidy", outcome: report.NotBuilt, reason: "run `go mod tidy` in its folder", diagnostics: []string{"cmd/behaviour.go:3:8 cannot find module"}},
		{name: "newer-go", outcome: report.NotBuilt, reason: "asks for a newer Go", diagnostics: []string{" go: go.mod requires go >= 1.99"}},
		{
			name: "bad-marker", outcome: report.NotGenerated, reason: "^no manifests can be generated from its markers$",
			diagnostics: []string{`cmd/behaviour.go:3:1 unknown argument "verb"`, "cmd/behaviour.go:3:1 extra arguments", `cmd/behaviour.go:3:1 missing argument "verbs"`},
		},
		{
			name: "bad-marker-committed", outcome: report.Graded, failed: "toppings-count", log: "watching: 200 OK",
			notice: `^controller-gen fails on the markers, so what is committed in config/ was used: cmd/behaviour.go:3:1: unknown argument "verb"`,
		},
		{name: "refused-definition", outcome: report.NotGenerated, reason: `^the API server refuses the CustomResourceDefinition icecreams\.demo\.lva\.io: .*"delicious"`},
		{name: "no-such-field", outcome: report.NotGenerated, reason: `^the API server refuses the CustomResourceDefinition icecreams\.demo\.lva\.io: .*flavour`},
		{name: "refused-role", outcome: report.NotGenerated, reason: `^the API server refuses the ClusterRole manager-role: .*verbs`},
		{name: "crashes-at-start", outcome: report.NotStarted, reason: "^it ended before it sent a request to the API server: exit status 2$", log: `(?s)^panic: the freezer is empty\n.*behaviour\.go:3`},
		{name: "ends-at-start", outcome: report.NotStarted, reason: "^it ended before it sent a request to the API server: exit status 0$", log: "^all icecreams are right$"},
		{
			name: "hangs", outcome: report.NotStarted, reason: "^it ran for 1.5s without watching anything: does main start the manager", log: "^waiting for icecreams$",
			change: func(o *Options) { o.StartTimeout = 1500 * time.Millisecond },
		},
		{name: "floods-at-start", outcome: report.Flooded, reason: "^it wrote more than 8 MB into its log", log: "again, and again\n"},
		{name: "floods-at-an-icecream", outcome: report.Flooded, reason: "^it wrote more than 8 MB into its log", log: "reconciling sundae", failed: "toppings-count"},
		{name: "crashes-at-an-icecream", outcome: report.Crashed, reason: "^it ended by itself: exit status 2$", log: "(?s)panic: runtime error: index out of range.*behaviour.go:9", failed: "toppings-count"},
		{
			name: "base", outcome: report.TimedOut, reason: "^the checks were not done within 1s$", log: "watching: 200 OK", failed: "toppings-count",
			change: func(o *Options) {
				lab := *o.Lab
				lab.TimeLimit = metav1.Duration{Duration: time.Second}
				o.Lab = &lab
			},
		},
		{name: "flags-of-2019", outcome: report.Graded, log: `(?s)^arguments \[--metrics-addr=0\] metrics at 0\nwatching`, failed: "toppings-count"},
		{name: "no-flags", outcome: report.Graded, log: `(?s)^arguments \[\]\nwatching`, failed: "toppings-count"},
		{name: "ignores-the-end", outcome: report.Graded, log: "watching", failed: "toppings-count"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := options(t, "2", lay(t, test.name))
			if test.change != nil {
				test.change(&options)
			}
			got := grade(t.Context(), t, options)
			if got.Outcome != test.outcome {
				t.Errorf("the outcome is %s and must be %s", got.Outcome, test.outcome)
			}
			match(t, "the reason", got.Reason, test.reason)
			match(t, "the operator's log", strings.Join(got.OperatorLog, "\n"), test.log)
			match(t, "the notices", strings.Join(got.Notices, "\n"), test.notice)
			var diagnostics []string
			for _, d := range got.Diagnostics {
				diagnostics = append(diagnostics, d.Position()+" "+d.Message)
			}
			if !slices.EqualFunc(diagnostics, test.diagnostics, strings.HasPrefix) {
				t.Errorf("the diagnostics are %q and must begin %q", diagnostics, test.diagnostics)
			}
			failed := ""
			if first := got.FirstFailed(); first != nil {
				failed = first.ID
			}
			if failed != test.failed || got.Score != 0 {
				t.Errorf("the first check that failed is %q and must be %q; it has %d points", failed, test.failed, got.Score)
			}
		})
	}
}

func match(t *testing.T, what, text, expression string) {
	t.Helper()
	if !regexp.MustCompile(expression).MatchString(text) || (expression == "" && text != "") {
		t.Errorf("%s must match %q and is\n%s", what, expression, text)
	}
}

// witness is a View that calls a function when a step or a check begins.
type witness struct {
	silent
	begins func(what string)
}

func (w witness) StepStarted(name string)         { w.begins(name) }
func (w witness) CheckStarted(check report.Check) { w.begins(check.ID) }

func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, when string }{
		{"hangs", "build"},
		{"hangs", "start a cluster"},
		{"hangs", "install the API"},
		{"hangs", "start the operator"},
		{"base", "toppings-count"},
	} {
		t.Run(test.when, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			options := options(t, "2", lay(t, test.name))
			options.View = witness{begins: func(what string) {
				if what == test.when {
					cancel(errors.New("Ctrl-C"))
				}
			}}
			got := grade(ctx, t, options)
			if got.Outcome != report.Interrupted || got.Reason != "the run was interrupted before all checks had run" {
				t.Errorf("the outcome is %s: %s", got.Outcome, got.Reason)
			}
			// That somebody pressed Ctrl-C says nothing of the check that ran.
			if got.Count(report.Skipped) != len(got.Checks) {
				t.Errorf("no check came to an end, and they are %+v", got.Checks)
			}
		})
	}
}

// What goes wrong with us is not the submission's fault, and no verdict on it.
func TestErrorsOfOurs(t *testing.T) {
	t.Parallel()
	one := func(o *Options) { // one check, no operator
		o.Lab = &manifest.Lab{
			Name: "01-shop", Title: "The shop", TimeLimit: metav1.Duration{Duration: time.Minute},
			Checks: []manifest.Check{{ID: "open", Title: "It is open", Points: 60}, {ID: "clean", Title: "It is clean", Points: 40, Needs: []string{"open"}}},
		}
	}
	// A script stands for checks with a mistake: they say what it prints, and end.
	checks := func(script string) func(*testing.T, *Options) {
		return func(t *testing.T, o *Options) {
			t.Helper()
			one(o)
			o.Checks = filepath.Join(t.TempDir(), "checks")
			if err := os.WriteFile(o.Checks, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*testing.T, *Options)
		reason string
		score  int
	}{
		{"no cluster", func(_ *testing.T, o *Options) {
			o.Start = func(context.Context) (*embedded.Cluster, error) { return nil, errors.New("no port is free") }
		}, "^the grader itself failed: no port is free$", 0},
		{"no controller-gen", func(_ *testing.T, o *Options) { o.ControllerGen = "/nowhere/controller-gen" }, "^the grader itself failed: /nowhere/controller-gen is needed", 0},
		{"no folder for the log", func(_ *testing.T, o *Options) { o.OperatorLog = "/nowhere/operator.log" }, "^the grader itself failed: making the operator's log", 0},
		{"checks that panic", checks(`echo '{"check":"open"}' >&3; echo 'panic: a mistake of ours' >&2; exit 2`), `(?s)^the grader itself failed: the checks ended before open; they said:.*panic: a mistake of ours`, 0},
		{"checks that stop too early", checks(`echo '{"check":"open","status":"passed"}' >&3`), "the checks ended before clean", 60},
		{"a check that nobody listed", checks(`echo '{"check":"cosy","status":"passed"}' >&3`), `the checks speak of "cosy", which labs.yaml does not list`, 0},
		{"checks that mumble", checks("echo hm >&3"), "reading what the checks say", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := options(t, "2", lay(t, "base"))
			test.change(t, &options)
			got := grade(t.Context(), t, options)
			if got.Outcome != report.Error || got.Score != test.score {
				t.Errorf("the outcome is %s with %d points", got.Outcome, got.Score)
			}
			match(t, "the reason", got.Reason, test.reason)
		})
	}
}

// An operator of early 2023, as it is on somebody's disk: see testdata/legacy/icecream-v0.14/README.md.
func TestAnOperatorFromBeforeOurTime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "icecream-operator")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "legacy", "icecream-v0.14"))); err != nil {
		t.Fatal(err)
	}
	options := options(t, "2", dir)
	options.Fetch = true
	got := grade(t.Context(), t, options)
	want := map[string]string{ // what was observed, of each that must fail
		"ties-by-name": "^there are lemon-", "per-flavour": "^there are ", "sold-out": "has soldOut false|is gone", // which of them depends on the clock
		"settles": "writes that change nothing",
	}
	if got.Outcome != report.Graded {
		t.Fatalf("the outcome is %s: %s %v\n%s", got.Outcome, got.Reason, got.Diagnostics, strings.Join(got.OperatorLog, "\n"))
	}
	for _, check := range got.Checks {
		expression, must := want[check.ID]
		switch {
		case must != (check.Status == report.Failed):
			t.Errorf("%s %s: %s %s", check.ID, check.Status, check.Observed, check.Reason)
		case must:
			match(t, "what was observed of "+check.ID, check.Observed, expression)
			if len(check.Evidence) == 0 {
				t.Errorf("%s has no evidence", check.ID)
			}
		case check.Status == report.Skipped != slices.Contains([]string{"two-flavours", "place-frees", "burst"}, check.ID):
			t.Errorf("%s %s: %s", check.ID, check.Status, check.Reason)
		}
	}
	if s := got.Submission; s.ControllerRuntime != "v0.14.1" || s.Module != "example.com/icecream-operator" || s.Go != "1.19" {
		t.Errorf("the submission is %+v", s)
	}
}
