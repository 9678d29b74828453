// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package replay_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/replay"
)

// recorded returns the real runs that the site shows.
func recorded(t *testing.T) map[string]*report.Report {
	t.Helper()
	files, err := filepath.Glob("../../../../docs/runs/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no recorded runs: %v", err)
	}
	all := map[string]*report.Report{}
	for _, file := range files {
		r, err := report.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		r.Sanitize()
		all[file] = r
	}
	return all
}

// In every recorded run, each moment is in at most one step, the steps are in the order of time, and each question
// can be answered.
func TestStepsOfRealRuns(t *testing.T) {
	questions := 0
	for file, r := range recorded(t) {
		for i := range r.Checks {
			last, seen := -1.0, map[int]bool{}
			for _, step := range replay.Steps(r, &r.Checks[i]) {
				if step.At < last-1e-9 {
					t.Errorf("%s, %s: a step at %.3f follows one at %.3f", file, r.Checks[i].ID, step.At, last)
				}
				last = step.At
				for _, moment := range step.Moments {
					if seen[moment] {
						t.Errorf("%s, %s: moment %d is in two steps", file, r.Checks[i].ID, moment)
					}
					seen[moment] = true
				}
				if step.Choices == nil {
					continue
				}
				questions++
				if !slices.Contains(step.Choices, step.Request) || !slices.IsSorted(step.Choices) ||
					len(slices.Compact(slices.Clone(step.Choices))) != len(step.Choices) {
					t.Errorf("%s, %s: choices for %q are %q", file, r.Checks[i].ID, step.Request, step.Choices)
				}
				if n := len(step.Choices); n < 3 || n > 4 {
					t.Errorf("%s, %s: got %d choices, want 3 or 4", file, r.Checks[i].ID, n)
				}
			}
		}
	}
	if questions < 200 {
		t.Errorf("all recorded runs together have %d questions, want at least 200", questions)
	}
}

// outage returns a run in which an operator tries, waits and tries again.
func outage() *report.Report {
	momentAt := func(momentAt float64, what string, code int, fault string) report.Moment {
		return report.Moment{At: momentAt, Seconds: 0.01, Service: report.ServiceAPI, What: what, Code: code, Fault: fault}
	}
	return &report.Report{
		Lab: "03-finalizer", Title: "The finalizer", Outcome: report.Graded,
		Checks: []report.Check{
			{ID: "first", Status: report.Passed, At: 1, Seconds: 0.5},
			{
				ID: "outage", Title: "It recovers", Status: report.Failed, At: 2, Seconds: 4,
				Expected: "it recovers", Observed: "it does not", Lecture: "docs/lectures/03-finalizers.md",
			},
			{ID: "never-ran", Status: report.Skipped},
		},
		Timeline: []report.Moment{
			momentAt(1.1, "list icecreams", 200, ""),
			momentAt(2.0, "patch icecreams apricot", 200, ""),
			momentAt(2.1, "update leases leader", 200, ""),
			momentAt(2.2, "get owners dceda42e-ce07-4ec4-996f-ae9dbddd2c66", 503, "unavailable"),
			momentAt(2.3, "watch icecreams", 200, ""),
			momentAt(3.5, "put movements cce76f5b549fcaa4fbb0ac2eb0939b80", 201, ""),
			momentAt(3.6, "put movements 3e299643a6df96300af1ea83bb1cb95f", 201, ""),
			{At: 3.7, Service: report.ServiceOperator, What: "the operator was killed"},
			momentAt(3.8, "update icecreams/status apricot", 200, ""),
		},
	}
}

func TestSteps(t *testing.T) {
	r := outage()
	var have []string
	for _, step := range replay.Steps(r, &r.Checks[1]) {
		line := step.Request
		if len(step.Moments) > 0 {
			line = r.Timeline[step.Moments[0]].What
		}
		if len(step.Moments) > 1 {
			line += " twice"
		}
		if step.Choices != nil {
			line = "? " + line
		}
		have = append(have, line)
	}
	want := []string{
		"? patch icecreams apricot",
		"? get owners dceda42e-ce07-4ec4-996f-ae9dbddd2c66",
		"watch icecreams",
		"? nothing for a while",
		"? put movements cce76f5b549fcaa4fbb0ac2eb0939b80 twice",
		"the operator was killed",
		"? update icecreams/status apricot",
	}
	if !slices.Equal(have, want) {
		t.Errorf("steps are\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if steps := replay.Steps(r, &r.Checks[2]); steps != nil {
		t.Errorf("a check that did not run has the steps %v", steps)
	}
}

func TestChoose(t *testing.T) {
	r := outage()
	for _, test := range []struct{ id, want, problem string }{
		{"", "outage", ""},
		{"outage", "outage", ""},
		{"first", "", "can't be replayed"},
		{"never-ran", "", "can't be replayed"},
		{"nonsense", "", "no check \"nonsense\": it has first, outage, never-ran"},
	} {
		check, err := replay.Choose(r, test.id)
		switch {
		case test.problem == "" && (err != nil || check.ID != test.want):
			t.Errorf("Choose(%q) = %v, %v", test.id, check, err)
		case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
			t.Errorf("Choose(%q) error = %v, want %q", test.id, err, test.problem)
		}
	}
	if _, err := replay.Choose(&report.Report{}, ""); err == nil {
		t.Error("a report without a timeline can be replayed")
	}
}

func TestPlay(t *testing.T) {
	r := outage()
	play := func(input string) string {
		t.Helper()
		var out strings.Builder
		var in io.Reader
		if input != "" {
			in = strings.NewReader(input)
		}
		if err := replay.Play(context.Background(), &out, in, r, &r.Checks[1]); err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []string{
			"expected: it recovers", "the operator was killed", "3-finalizers.md",
			"put movements cce76f…, and 1 request like it → 201", "fault unavailable: It was answered with 503",
		} {
			if !strings.Contains(out.String(), wanted) {
				t.Errorf("with the input %q, the output lacks %q:\n%s", input, wanted, out.String())
			}
		}
		return out.String()
	}
	for _, test := range []struct {
		name, input string
		wanted      []string
		unwanted    string
	}{
		{"no terminal", "", nil, "What does the operator do next?"},
		{"the right answer, and all the rest", "3\nq\n", []string{"Right.", "You predicted 1 of 1 step."}, ""},
		{"the wrong answer", "1\nq\n", []string{"No: patch icecreams.", "You predicted 0 of 1 step."}, ""},
		{"no answer", "x\n0\n99\n\nq\n", []string{"Type a number from 1 to 4, Enter or q."}, "You predicted"},
		{"the end of the input", "1\n", []string{"You predicted 0 of 1 step."}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			output := play(test.input)
			for _, wanted := range test.wanted {
				if !strings.Contains(output, wanted) {
					t.Errorf("output lacks %q:\n%s", wanted, output)
				}
			}
			if test.unwanted != "" && strings.Contains(output, test.unwanted) {
				t.Errorf("output contains %q:\n%s", test.unwanted, output)
			}
		})
	}
}

// A read from a terminal blocks until a line is entered, so Ctrl-C must end the wait.
func TestCancelEndsPrompt(t *testing.T) {
	ended := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	in, _ := io.Pipe()
	cancel(ended)
	r := outage()
	if err := replay.Play(ctx, io.Discard, in, r, &r.Checks[1]); !errors.Is(err, ended) {
		t.Errorf("Play() error = %v", err)
	}
}
