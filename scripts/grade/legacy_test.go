// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/report"
)

// verdicts are what a report must say: of each check that must fail, an expression for what was observed; and which are
// skipped. All others pass.
type verdicts struct {
	fails   map[string]string
	skipped []string
	// either are checks that this operator passes or fails, as the clock has it: it decides by what its cache happens to
	// show.
	either []string
}

func (want verdicts) compare(t *testing.T, got *report.Report) {
	t.Helper()
	if got.Outcome != report.Graded {
		t.Fatalf("the outcome is %s: %s %v\n%s", got.Outcome, got.Reason, got.Diagnostics, strings.Join(got.OperatorLog, "\n"))
	}
	found := 0
	for _, check := range got.Checks {
		expression, must := want.fails[check.ID]
		switch {
		case slices.Contains(want.either, check.ID):
		case must != (check.Status == report.Failed):
			t.Errorf("%s %s: %s %s", check.ID, check.Status, check.Observed, check.Reason)
		case must:
			found++
			match(t, "what was observed of "+check.ID, check.Observed, expression)
			if len(check.Evidence) == 0 {
				t.Errorf("%s has no evidence", check.ID)
			}
		case (check.Status == report.Skipped) != slices.Contains(want.skipped, check.ID):
			t.Errorf("%s %s: %s", check.ID, check.Status, check.Reason)
		}
	}
	if found != len(want.fails) {
		t.Errorf("%d of %d checks that must fail were found in the report", found, len(want.fails))
	}
}

// bring copies an operator of another time to where it would be on somebody's disk: outside of this repository.
func bring(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "icecream-operator")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "legacy", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An operator of early 2023: see testdata/legacy/icecream-v0.14/README.md.
func TestAnOperatorFromBeforeOurTime(t *testing.T) {
	t.Parallel()
	options := options(t, "2", bring(t, "icecream-v0.14"))
	options.Fetch = true
	got := grade(t.Context(), t, options)
	verdicts{
		fails: map[string]string{
			"ties-by-name": "^there are lemon-", "per-flavour": "^there are ", "sold-out": "has soldOut false|is gone", // which of them depends on the clock
			"settles": "writes that change nothing",
		},
		skipped: []string{"two-flavours", "place-frees", "burst", "bad-day"},
		either:  []string{"restart"},
	}.compare(t, got)
	if s := got.Submission; s.ControllerRuntime != "v0.14.1" || s.Module != "example.com/icecream-operator" || s.Go != "1.19" {
		t.Errorf("the submission is %+v", s)
	}
}

// An operator of the autumn of 2024, with a finalizer and webhooks: see testdata/legacy/icecream-v0.19/README.md.
func TestAnOperatorAsPeoplePublishedItIn2024(t *testing.T) {
	t.Parallel()
	dir := bring(t, "icecream-v0.19")
	cache := t.TempDir() // it is built once
	for _, test := range []struct {
		lab  string
		want verdicts
	}{
		{"2", verdicts{
			fails:   map[string]string{"sold-out": `^kiwi-1 \(kiwi\) has soldOut false`},
			skipped: []string{"place-frees", "bad-day"},
		}},
		{"3", verdicts{
			fails: map[string]string{
				"taken":            "^the freezer has booked nothing for blackberry .*: nobody has asked it for anything yet",
				"dying-untouched":  "^the operator tried to: .* update icecreams nougat → 422 Unprocessable Entity",
				"zombie-explained": "^there is no such file in the submission",
				"zombie-freed":     "^there is no such file in the submission",
			},
			skipped: []string{
				"finalizer-first", "returned", "toppings-first", "freezer-down", "backs-off", "condition", "no-answer", "killed-between",
				"two-at-once", "bad-day",
			},
		}},
		{"4", verdicts{
			fails: map[string]string{
				"names":        `^it does not name vanilla, chocolate and strawberry: admission webhook "vicecream.kb.io" denied the request: invalid flavour: matcha$`,
				"on-update":    "^a change from vanilla to matcha: it was accepted$",
				"defaults":     `^an icecream without flavour and topping: it has the toppings \[\]$`,
				"warns":        "^an icecream of vanilla, chocolate and strawberry: it was accepted without a warning$",
				"fails-closed": "^deleting an icecream: it was not answered by a webhook: .*vicecream.kb.io",
				"policy":       "^there is no such file",
			},
			skipped: []string{"all-at-once", "keeps", "idempotent", "old-objects", "bad-day"},
		}},
	} {
		// One after the other: its webhooks insist on one port.
		t.Run("lab "+test.lab, func(t *testing.T) {
			options := options(t, test.lab, dir)
			options.Fetch, options.BuildCache = true, cache
			got := grade(t.Context(), t, options)
			test.want.compare(t, got)
			if s := got.Submission; s.ControllerRuntime != "v0.19.0" || s.Module != "example.com/icecream-operator" || s.Go != "1.22.0" {
				t.Errorf("the submission is %+v", s)
			}
		})
	}
}
