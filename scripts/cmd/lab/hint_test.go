// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func TestHintsAreShownOneByOne(t *testing.T) {
	t.Parallel()
	root := bare(t)
	listed, err := findCheckout(t).Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	hint := func(failed string) (shown []int, text string) {
		t.Helper()
		got := run(t, root, "hint", "1")
		if got.code != 0 || got.stderr != "" {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		for _, check := range listed.Checks {
			for i, hint := range check.Hints {
				if strings.Contains(got.stdout, strings.TrimSpace(hint)) {
					if check.ID != failed {
						t.Errorf("%s failed, but the hint is for %s", failed, check.ID)
					}
					shown = append(shown, i+1)
				}
			}
		}
		return shown, got.stdout
	}
	const first, second = "toppings-max", "columns"
	check, err := listed.Check(first)
	if err != nil {
		t.Fatal(err)
	}
	last(t, root, first, nil)
	var all []int
	for n := range check.Hints {
		all = append(all, n+1)
		if shown, text := hint(first); !slices.Equal(shown, []int{n + 1}) ||
			!strings.Contains(text, fmt.Sprintf("Hint %d of %d", n+1, len(check.Hints))) {
			t.Errorf("after %d calls: got hints %v:\n%s", n+1, shown, text)
		}
	}
	if shown, text := hint(first); !slices.Equal(shown, all) || !strings.Contains(text, "make read-1") {
		t.Errorf("after the last hint: got hints %v:\n%s", shown, text)
	}
	// Another check begins with its first hint. The earlier check's hints are not forgotten.
	last(t, root, second, nil)
	if shown, text := hint(second); !slices.Equal(shown, []int{1}) {
		t.Errorf("for the next check: got hints %v:\n%s", shown, text)
	}
	last(t, root, first, nil)
	if shown, text := hint(first); !slices.Equal(shown, all) {
		t.Errorf("for the first check again: got hints %v:\n%s", shown, text)
	}
}

func TestHintsWithoutFailedCheck(t *testing.T) {
	t.Parallel()
	root := bare(t)
	last(t, root, "", nil)
	if got := run(t, root, "hint", "1"); got.code != 0 || !strings.Contains(got.stdout, "your last run has full marks") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	last(t, root, "", func(r *report.Report) {
		r.Outcome, r.Reason, r.Score = report.NotBuilt, "it does not compile", 0
		for i := range r.Checks {
			r.Checks[i].Status, r.Checks[i].Points, r.Checks[i].Reason = report.Skipped, 0, "skipped: the run ended before it"
		}
	})
	got := run(t, root, "hint", "1")
	if got.code != 1 ||
		!strings.Contains(got.stderr, "because it ended early: it does not compile; fix that and run `make lab-1`") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if err := os.WriteFile(filepath.Join(root, "out", "01-icecream", "verdict", "report.json"),
		[]byte(`{"schema": "x/v9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, root, "hint", "1"); got.code != 1 || !strings.Contains(got.stderr, "grade again to get a new one") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
