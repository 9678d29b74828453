// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func TestRenderTests(t *testing.T) {
	t.Parallel()
	tests := &report.Tests{
		Lab: "02-reconciler", Outcome: report.Graded, Want: 80, Seconds: 65,
		Notices: []string{"1 of 3 tests skip themselves, and find nothing"},
		Own:     &report.TestRun{Tests: 3, Failed: []string{"TestA"}, Output: []string{"\x1b[31mred"}, Seconds: 4},
		Ours:    &report.TestRun{Passed: true, Tests: 3, Skipped: 1, Seconds: 5},
		Mutants: []report.TestedMutant{
			{Number: 1, Name: "keeps-two", Misconception: "An icecream counts itself.", Fate: report.MutantFound, By: "TestA"},
			{Number: 2, Fate: report.MutantMissed},
			{Number: 3, Fate: report.MutantUnseen, By: "markers"},
			{Number: 4, Fate: report.MutantMissed, By: "no test runs the code that it changes"},
		},
	}
	var text strings.Builder
	RenderTests(&text, tests, "out/02-reconciler/tests.html")
	want := `
02-reconciler: Your tests fail on your own operator
  on your operator  they fail: TestA (3 tests, 4 s)
      ` + report.Safe("\x1b[31mred") + `
  on ours           they pass (3 tests, 1 of them skip themselves, 5 s)
  note: 1 of 3 tests skip themselves, and find nothing

  found   1: keeps-two. An icecream counts itself. Found by TestA
  missed  wrong solution 2
  missed  wrong solution 4 (no test runs the code that it changes)

Your tests find 1 of 3 wrong solutions (33 %). They should find 80 %. ` +
		`Not counted: 1 that change only markers, manifests or package main, which no Go test can see.
It took 1m5s. Report: out/02-reconciler/tests.html
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
