// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package html

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/report"
)

func sample() *report.Tests {
	return &report.Tests{
		Schema: report.TestsSchema, Lab: "02-reconciler", Title: "The reconciler", Dir: "icecream",
		Started: time.Date(2026, 11, 26, 7, 0, 0, 0, time.UTC),
		Seconds: 123, Outcome: report.Graded, Want: 80, Notices: []string{"`shop` has no counterpart"},
		Own:  &report.TestRun{Tests: 3, Failed: []string{"TestA"}, Output: []string{"<script>alert(1)</script>"}, Seconds: 4},
		Ours: &report.TestRun{Passed: true, Tests: 3, Skipped: 1, Seconds: 5},
		Mutants: []report.TestedMutant{
			{
				Number: 1, Name: "keeps-two", Misconception: "An icecream counts itself.",
				Fate: report.MutantFound, By: "TestA", Seconds: 3.2,
			},
			{Number: 2, Fate: report.MutantMissed, Seconds: 8},
			{
				Number: 3, Name: "all-rights", Fate: report.MutantUnseen,
				By: "it changes markers or manifests only, which no Go test runs",
			},
			{Number: 4, Fate: report.MutantUntried, By: "the time was up"},
		},
	}
}

func TestTestsPage(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Sanitize()
	var page bytes.Buffer
	if err := WriteTests(&page, r); err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("TESTS_PAGE"); file != "" { // for a look at the page
		if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"<b>50 %</b>", "Your tests fail on your own operator", "An icecream counts itself.",
		"wrong solution 2", "&lt;script&gt;alert(1)", "<code>shop</code>",
		"1 found", "1 missed", "1 not tried", "they fail: TestA (3 tests, 4 s)",
		"they pass (3 tests, 1 of them skip themselves, 5 s)", "<code>all-rights</code>",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(page.String(), "<script") {
		t.Error("page has a script")
	}
}
