// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
)

func TestPrintTrials(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(milliseconds int, entry faults.Entry) faults.Entry {
		entry.Time = began.Add(time.Duration(milliseconds) * time.Millisecond)
		return entry
	}
	write := faults.Entry{
		Service: faults.API, Verb: "update", Resource: "icecreams/status", Name: "sundae", Code: 200, Write: true,
	}
	unanswered := write
	unanswered.Code, unanswered.Fault = 0, faults.KillBefore
	hostile := write
	hostile.Name = "a\x1b[31mred"
	run := func(outcome report.Outcome, reason string) report.Report {
		return report.Report{Lab: "03-finalizer", Outcome: outcome, Reason: reason, Seed: 4711}
	}
	kill := faults.Schedule{Faults: []faults.Fault{{Kind: faults.KillBefore, Class: faults.Write, At: 3}}}
	notBuilt := run(report.NotBuilt, "it does not compile")
	notBuilt.Diagnostics = []report.Diagnostic{
		{File: "cmd/main.go", Line: 3, Column: 8, Message: "undefined: shop"}, {Message: "and more"},
	}
	notStarted := run(report.NotStarted, "it ended before it sent a request")
	notStarted.OperatorLog = []string{"panic: \x1b[31mclosed"}
	for _, test := range []struct {
		name   string
		trials grade.Trials
		random int
		want   string
	}{
		{
			"it survives",
			grade.Trials{Run: run(report.Graded, ""), Tried: 41, Of: 41},
			grade.RandomSchedules,
			"\n03-finalizer survives: a good day, each single crash at a write, and random schedules, 41 in all (seed 4711).\n",
		},
		{
			"it does not compile",
			grade.Trials{Run: notBuilt},
			grade.RandomSchedules,
			"\nnot-built: it does not compile\n    cmd/main.go:3:8: undefined: shop\n    and more\n",
		},
		{
			"it does not start",
			grade.Trials{Run: notStarted},
			grade.RandomSchedules,
			"\nnot-started: it ended before it sent a request\n    panic: " + report.Safe("\x1b[31mclosed") + "\n",
		},
		{
			"it fails",
			grade.Trials{Run: run(report.Graded, ""), Failure: &grade.Failure{
				Schedule: kill, Expected: "all is returned", Observed: "cream is out", Evidence: []string{"not shown"},
				Timeline: []faults.Entry{
					at(0, write), at(12, unanswered),
					at(1500, faults.Entry{Service: faults.Operator, Verb: "killed"}), at(61001, hostile),
				},
			}},
			grade.RandomSchedules,
			`
It fails under this schedule, the shortest that was found:

    kill-before write 3

  expected  all is returned
  observed  cream is out

  what the operator requested, what happened to it, and what the check did (seconds since the schedule began):
    0.000  update icecreams/status sundae → 200
    0.012  update icecreams/status sundae   ← kill-before
    1.500  the operator was killed
   61.001  update icecreams/status ` + report.Safe("a\x1b[31mred") + ` → 200

To see it again: lab torture 3 --seed 4711
`,
		},
		{
			"it crashes",
			grade.Trials{Run: run(report.Crashed, "it ended by itself"), Failure: &grade.Failure{
				Schedule: kill, Expected: "the operator continues",
				Observed: "it ended by itself", Evidence: []string{"panic: closed", "main.go:7"},
			}},
			7,
			`
It fails under this schedule, the shortest that was found:

    kill-before write 3

  expected  the operator continues
  observed  it ended by itself
            panic: closed
            main.go:7

To see it again: lab torture 3 --seed 4711 --random 7
`,
		},
		{
			"it fails on a good day",
			grade.Trials{Run: run(report.Graded, ""), Failure: &grade.Failure{
				Expected: "all is returned", Observed: "cream is out",
			}},
			grade.RandomSchedules,
			`
It fails under this schedule, the shortest that was found:

    no faults

    It fails on a good day: grade it first, with ` + "`lab grade 3`" + `.

  expected  all is returned
  observed  cream is out

To see it again: lab torture 3 --seed 4711
`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			printTrials(&out, &test.trials, "lab torture 3", test.random, false)
			if out.String() != test.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), test.want)
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("the output has control characters of the operator: %q", out.String())
			}
		})
	}
}

func TestLongTimelineIsCut(t *testing.T) {
	t.Parallel()
	failure := &grade.Failure{}
	for n := range 75 {
		failure.Timeline = append(failure.Timeline, faults.Entry{
			Time: time.Unix(int64(n), 0), Service: faults.API, Verb: "get", Resource: "icecreams", Code: 200,
		})
	}
	var out strings.Builder
	printTimeline(&out, failure)
	text := out.String()
	if !strings.Contains(text, "(earlier requests: 15; all are in torture.json)") ||
		strings.Count(text, "get icecreams") != 60 ||
		strings.Contains(text, " 14.000 ") || !strings.Contains(text, " 15.000 ") ||
		!strings.HasSuffix(text, "   74.000  get icecreams → 200\n") {
		t.Errorf("got output\n%s", text)
	}
}
