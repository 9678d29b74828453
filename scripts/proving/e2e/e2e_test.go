// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// recorded returns steps that record that they ran.
func recorded(ran *[]string, names ...string) (steps []step) {
	for _, name := range names {
		steps = append(steps, step{name: name, limit: time.Minute, do: func(context.Context) error {
			*ran = append(*ran, name)
			return nil
		}})
	}
	return steps
}

func TestClusterIsAlwaysDeleted(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		do     func(context.Context) error
		cancel bool
		want   []string
	}{
		{name: "nothing", do: func(context.Context) error { return nil }, want: []string{"before", "after", "delete"}},
		{
			name: "a step fails", do: func(context.Context) error { return broken },
			want: []string{"before", "explain", "delete"},
		},
		{
			name: "a step hangs",
			do:   func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			want: []string{"before", "explain", "delete"},
		},
		{
			name: "a person ends the run", cancel: true,
			do:   func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			want: []string{"before", "delete"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var ran []string
			steps := recorded(&ran, "before", "middle", "after")
			steps[1].do, steps[1].limit = test.do, 10*time.Millisecond
			if test.cancel {
				steps[1].limit = time.Minute
				time.AfterFunc(10*time.Millisecond, cancel)
			}
			last := step{name: "delete", limit: time.Minute, do: func(ctx context.Context) error {
				ran = append(ran, "delete")
				return ctx.Err()
			}}
			result, err := runSteps(ctx, Options{Out: io.Discard}, steps, func(context.Context) {
				ran = append(ran, "explain")
			}, last)
			if (err == nil) != (test.name == "nothing") {
				t.Errorf("runSteps() error = %v", err)
			}
			if diff := cmp.Diff(test.want, ran); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := result.Steps[len(result.Steps)-1]; got.Name != "delete" || got.Err != nil {
				t.Errorf("last step = %+v", got)
			}
		})
	}
}

func TestFailedDeletionIsError(t *testing.T) {
	t.Parallel()
	var ran []string
	_, err := runSteps(t.Context(), Options{Out: io.Discard}, recorded(&ran, "a"), nil, step{
		name: "delete", limit: time.Minute, do: func(context.Context) error { return errors.New("a container is left") },
	})
	if err == nil || !strings.Contains(err.Error(), "delete: a container is left") {
		t.Errorf("runSteps() error = %v", err)
	}
}

func TestStepThatDoesNotFitIsSkipped(t *testing.T) {
	t.Parallel()
	var ran []string
	steps := recorded(&ran, "short", "long", "short again")
	steps[1].needs = time.Hour
	result, err := runSteps(t.Context(), Options{Out: io.Discard, Within: time.Minute}, steps, nil,
		recorded(&ran, "delete")[0])
	if err != nil {
		t.Fatal(err)
	}
	// Later steps may need a step that was left out.
	if diff := cmp.Diff([]string{"short", "delete"}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"long", "short again"}, result.NotRun); diff != "" {
		t.Errorf("not run (-want +got):\n%s", diff)
	}
	var table strings.Builder
	result.Table(&table)
	for _, want := range []string{"ok      ", "short\n", "not run, for lack of time: long\n", "in all\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
}

func TestLateStepIsEndedAtDeadline(t *testing.T) {
	t.Parallel()
	for _, resumable := range []bool{true, false} {
		var ran []string
		steps := recorded(&ran, "slow", "after")
		steps[0].resumable, steps[0].limit = resumable, 200*time.Millisecond
		steps[0].do = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		options := Options{Out: io.Discard, Within: 20 * time.Millisecond}
		result, err := runSteps(t.Context(), options, steps, func(context.Context) {}, recorded(&ran, "delete")[0])
		if (err == nil) != resumable {
			t.Errorf("resumable %v: error = %v", resumable, err)
		}
		if resumable && !cmp.Equal(result.NotRun, []string{"slow", "after"}) {
			t.Errorf("not run: %q", result.NotRun)
		}
		if diff := cmp.Diff([]string{"delete"}, ran); diff != "" {
			t.Errorf("resumable %v: ran (-want +got):\n%s", resumable, diff)
		}
	}
}

func TestWrongSubmissionMustFailForItsReason(t *testing.T) {
	t.Parallel()
	graded := func(status report.Status, observed string) *report.Report {
		return &report.Report{Outcome: report.Graded, Checks: []report.Check{
			{ID: "per-flavour", Status: status, Observed: observed}, {ID: "served", Status: report.Passed},
		}}
	}
	fails := map[string]string{"per-flavour": "four .* stay"}
	for _, test := range []struct {
		name   string
		report *report.Report
		want   string
	}{
		{"as expected", graded(report.Failed, "four of them stay"), ""},
		{"for another reason", graded(report.Failed, "none stays"), "per-flavour fails for a reason other than"},
		{"not found out", graded(report.Passed, ""), "per-flavour must fail, but it was passed"},
		{"not graded", &report.Report{Outcome: report.Error, Reason: "no cluster"}, "the outcome is error: no cluster"},
		{"another check, too", &report.Report{Outcome: report.Graded, Checks: []report.Check{
			{ID: "per-flavour", Status: report.Failed, Observed: "four of them stay"},
			{ID: "served", Status: report.Failed, Observed: "nothing"},
		}}, "served must not fail: nothing"},
	} {
		err := deviations(test.report, fails)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: deviations() = %v, want %s", test.name, err, test.want)
		}
	}
}

func TestUntestableSubmissionIsNotFailure(t *testing.T) {
	t.Parallel()
	passed := report.Check{ID: "page", Status: report.Passed}
	untried := report.Check{ID: "leader", Status: report.Skipped, Reason: "skipped: " + protocol.NeedsProcess}
	for name, test := range map[string]struct {
		outcome report.Outcome
		checks  []report.Check
		want    []string
	}{
		"all passed":       {report.Graded, []report.Check{passed}, nil},
		"some are untried": {report.Graded, []report.Check{passed, untried}, []string{"leader"}},
		"one failed":       {report.Graded, []report.Check{untried, {ID: "owner", Status: report.Failed}}, nil},
		"one needs one that fails": {report.Graded, []report.Check{
			untried, {ID: "owner", Status: report.Skipped, Reason: "skipped: it needs children"},
		}, nil},
		"the run was ended": {report.Interrupted, []report.Check{passed, untried}, nil},
	} {
		if got := untriedAsAPod(&report.Report{Outcome: test.outcome, Checks: test.checks}); !slices.Equal(got, test.want) {
			t.Errorf("%s: untriedAsAPod() = %v, want %v", name, got, test.want)
		}
	}
}

func TestRequestedLabsAreGraded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		only []string
		want bool
	}{
		{nil, true},
		{[]string{"08-lolcow", "09-webapp"}, true},
		{[]string{"09-webapp"}, false},
	} {
		if got := (&Options{Only: test.only}).grades(&manifest.Lab{Name: "08-lolcow"}); got != test.want {
			t.Errorf("Only %v: lab 08 is graded = %t, want %t", test.only, got, test.want)
		}
	}
}

func TestTableNamesSkippedSteps(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	(&Result{LeftOut: []string{"01-icecream", "03-finalizer"}}).Table(&out)
	if want := "skipped, because other labs were requested: " +
		"01-icecream, 03-finalizer\n"; !strings.Contains(out.String(), want) {
		t.Errorf("want a table with %q, got\n%s", want, out.String())
	}
}
