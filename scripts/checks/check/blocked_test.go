// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"maps"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

func TestBlocked(t *testing.T) {
	t.Parallel()
	lab := &manifest.Lab{Name: "02-pan-flipper", Checks: []manifest.Check{
		{ID: "served"},
		{ID: "flips", Points: 40},
		{ID: "once", Points: 20, Needs: []string{"flips"}},
		{ID: "never-drops", Points: 20, Needs: []string{"flips", "once"}},
		{ID: "cold-pan", Points: 20, Causes: []string{"once"}},
	}}
	for _, test := range []struct {
		name, check string
		statuses    map[string]report.Status
		want        string
	}{
		{"needs nothing", "flips", nil, ""},
		{"all passed", "never-drops", map[string]report.Status{"flips": report.Passed, "once": report.Passed}, ""},
		{"one failed", "once", map[string]report.Status{"flips": report.Failed}, "skipped: it needs flips, which failed"},
		{
			"the second failed", "never-drops",
			map[string]report.Status{"flips": report.Passed, "once": report.Failed},
			"skipped: it needs once, which failed",
		},
		{
			"one was skipped", "never-drops",
			map[string]report.Status{"flips": report.Passed, "once": report.Skipped},
			"skipped: it needs once, which was skipped",
		},
		{"one has not run", "once", nil, "skipped: it needs flips, which has not run"},
		{
			"an unknown status", "once",
			map[string]report.Status{"flips": "fine"},
			"skipped: it needs flips, which has not run",
		},
		{"others do not matter", "once", map[string]report.Status{"flips": report.Passed, "cold-pan": report.Failed}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			statuses := map[string]report.Status{"served": report.Passed} // the precondition
			maps.Copy(statuses, test.statuses)
			if got := blocked(lab, test.check, statuses); got != test.want {
				t.Errorf("blocked() = %q, want %q", got, test.want)
			}
		})
	}
	if got := blocked(lab, "nonsense", nil); !strings.HasPrefix(got, "skipped: lab 02-pan-flipper has no check") {
		t.Errorf("an unknown check is blocked by %q", got)
	}
	if got := blocked(lab, "served", nil); got != "" {
		t.Errorf("a precondition is blocked by %q", got)
	}
	if got := blocked(lab, "flips", map[string]report.Status{"served": report.Failed}); got !=
		"skipped: it needs served, which failed" {
		t.Errorf("without the precondition, flips is blocked by %q", got)
	}
}

// TestMayExplain checks that a check that may name a cause runs only after the check that it explains has failed.
func TestMayExplain(t *testing.T) {
	t.Parallel()
	lab := &manifest.Lab{Checks: []manifest.Check{{ID: "once"}, {ID: "cold-pan", Causes: []string{"once"}}}}
	for status, want := range map[report.Status]bool{
		report.Failed:  true,
		report.Passed:  false,
		report.Skipped: false,
		"":             false,
	} {
		if got := mayExplain(lab, "once", map[string]report.Status{"cold-pan": status}); got != want {
			t.Errorf("mayExplain() after cold-pan with the status %q = %t, want %t", status, got, want)
		}
	}
	if mayExplain(lab, "cold-pan", map[string]report.Status{"cold-pan": report.Failed}) {
		t.Error("a check explains its own failure")
	}
}
