// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package gradescope writes a report as Gradescope's results.json.
package gradescope

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// Options are the parts of Gradescope's results.json that are not in the report.
type Options struct {
	// Visibility is the visibility of the score and of each check: one of Visibilities. Default: visible.
	Visibility string
	// Unfinished is true while checks run. The file written then is the result if the container is killed.
	Unfinished bool
}

// Visibilities are the visibilities that Gradescope knows.
var Visibilities = []string{"visible", "after_due_date", "after_published", "hidden"}

// results is results.json, as defined by Gradescope's specification of autograders. There is never a leaderboard,
// because it would show a student's result to all others.
type results struct {
	Score         int     `json:"score"`
	ExecutionTime float64 `json:"execution_time"`
	Output        string  `json:"output"`
	OutputFormat  string  `json:"output_format"`
	Visibility    string  `json:"visibility"`
	// StdoutVisibility hides the output of the harness, which shows details of the machine. The student has the report.
	StdoutVisibility string         `json:"stdout_visibility"`
	ExtraData        map[string]any `json:"extra_data"`
	Tests            []test         `json:"tests"`
}

type test struct {
	Score        int            `json:"score"`
	MaxScore     int            `json:"max_score"`
	Status       string         `json:"status"`
	Name         string         `json:"name"`
	Number       string         `json:"number"`
	Output       string         `json:"output"`
	OutputFormat string         `json:"output_format"`
	Tags         []string       `json:"tags"`
	Visibility   string         `json:"visibility"`
	ExtraData    map[string]any `json:"extra_data,omitempty"`
}

// Write writes Gradescope's results.json. A run without a grade has an additional failed test with the reason, so
// that there is always at least one test. The score is the sum of the points of the checks that passed, even in an
// unfinished report.
func Write(w io.Writer, r *report.Report, o Options) error {
	visibility := cmp.Or(o.Visibility, Visibilities[0])
	if !slices.Contains(Visibilities, visibility) {
		return fmt.Errorf("Gradescope has no visibility %q: choose one of %s", //nolint:staticcheck // the name of a product
			visibility, strings.Join(Visibilities, ", "))
	}
	written := results{
		ExecutionTime: r.Seconds, Output: output(r, o), OutputFormat: "text",
		Visibility: visibility, StdoutVisibility: "hidden",
		ExtraData: map[string]any{"schema": report.Schema, "lab": r.Lab, "outcome": r.Outcome, "unfinished": o.Unfinished},
	}
	if r.Seed != 0 {
		written.ExtraData["seed"] = r.Seed
	}
	for i := range r.Checks {
		check := &r.Checks[i]
		one := test{
			MaxScore: check.MaxPoints, Status: "failed", Name: check.ID + ": " + check.Title, Number: strconv.Itoa(i + 1),
			Output: check.PlainText(), OutputFormat: "text", Tags: []string{string(check.Status)}, Visibility: visibility,
		}
		if check.Extension {
			// Its points are not among the lab's. The test only shows whether it passed.
			one.MaxScore = 0
		}
		switch {
		case check.Extension && check.Status == report.Skipped:
			continue
		case check.Status == report.Passed:
			one.Status, one.Score = "passed", one.MaxScore
		case check.Status == report.Skipped && o.Unfinished:
			one.Output = "It has not run yet."
		}
		written.Score += one.Score
		written.Tests = append(written.Tests, one)
	}
	if title, left := r.WithoutGrade(); title != "" {
		written.Tests = append([]test{{
			MaxScore: left, Status: "failed", Name: title, Number: "0", Output: written.Output, OutputFormat: "text",
			Tags: []string{string(r.Outcome)}, Visibility: visibility,
		}}, written.Tests...)
	}
	return report.WriteJSON(w, written, "Gradescope's results.json")
}

// output is the text above all tests.
func output(r *report.Report, o Options) string {
	if o.Unfinished {
		decided := len(r.Checks) - r.Count(report.Skipped)
		return fmt.Sprintf("This run had not finished when this was written: %d of %d checks had a result. "+
			"If you read this long afterwards, something else ended the run, such as a time limit. "+
			"The points are those of the checks that had passed.",
			decided, len(r.Checks))
	}
	text := r.Summary() + ".\n"
	if r.Outcome != report.Graded {
		text = r.Outcome.Headline() + ": " + r.RunText()
		if r.Inconclusive() {
			text += "\nThis is not a verdict on the submission: grade it again.\n"
		}
	}
	if remarks := r.Remarks(); remarks != "" {
		text += "\n" + remarks
	}
	if r.Seed != 0 {
		text += fmt.Sprintf("\nseed: %d; to repeat this run: .cache/bin/lab grade %s --seed %d\n", r.Seed, r.Number(), r.Seed)
	}
	return text
}
