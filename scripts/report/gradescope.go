// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// GradescopeOptions are what Gradescope's results.json says besides the report.
type GradescopeOptions struct {
	// Visibility of the score and of each check: one of Visibilities. Default: visible.
	Visibility string
	// Unfinished is true while checks run. What is written then stands if the container is ended from outside.
	Unfinished bool
}

// Visibilities are those that Gradescope knows.
var Visibilities = []string{"visible", "after_due_date", "after_published", "hidden"}

// gradescopeResults is results.json, as Gradescope's specification of autograders has it. There is never a leaderboard: it
// would show a student's result to all others.
type gradescopeResults struct {
	Score         int     `json:"score"`
	ExecutionTime float64 `json:"execution_time"`
	Output        string  `json:"output"`
	OutputFormat  string  `json:"output_format"`
	Visibility    string  `json:"visibility"`
	// StdoutVisibility hides what the harness prints: it knows the machine, and the student has the report.
	StdoutVisibility string           `json:"stdout_visibility"`
	ExtraData        map[string]any   `json:"extra_data"`
	Tests            []gradescopeTest `json:"tests"`
}

type gradescopeTest struct {
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

// WriteGradescope writes Gradescope's results.json. A run without a grade has a failed test besides, which says why, so that
// there is never a result without a test. The score is the sum of what passed, also in a report that is not finished.
func WriteGradescope(w io.Writer, r *Report, o GradescopeOptions) error {
	visibility := cmp.Or(o.Visibility, Visibilities[0])
	if !slices.Contains(Visibilities, visibility) {
		return fmt.Errorf("Gradescope knows no visibility %q: choose one of %s", //nolint:staticcheck // the name of a product
			visibility, strings.Join(Visibilities, ", "))
	}
	results := gradescopeResults{
		ExecutionTime: r.Seconds, Output: r.gradescopeOutput(o), OutputFormat: "text",
		Visibility: visibility, StdoutVisibility: "hidden",
		ExtraData: map[string]any{"schema": Schema, "lab": r.Lab, "outcome": r.Outcome, "unfinished": o.Unfinished},
	}
	if r.Seed != 0 {
		results.ExtraData["seed"] = r.Seed
	}
	for i := range r.Checks {
		check := &r.Checks[i]
		test := gradescopeTest{
			MaxScore: check.MaxPoints, Status: "failed", Name: check.ID + ": " + check.Title, Number: strconv.Itoa(i + 1),
			Output: check.plainText(), OutputFormat: "text", Tags: []string{string(check.Status)}, Visibility: visibility,
		}
		switch {
		case check.Status == Passed:
			test.Status, test.Score = "passed", check.MaxPoints
		case check.Status == Skipped && o.Unfinished:
			test.Output = "It has not run yet."
		}
		results.Score += test.Score
		results.Tests = append(results.Tests, test)
	}
	if title, left := r.withoutGrade(); title != "" {
		results.Tests = append([]gradescopeTest{{
			MaxScore: left, Status: "failed", Name: title, Number: "0", Output: results.Output, OutputFormat: "text",
			Tags: []string{string(r.Outcome)}, Visibility: visibility,
		}}, results.Tests...)
	}
	return writeJSON(w, results, "Gradescope's results.json")
}

// gradescopeOutput is what stands above all tests.
func (r *Report) gradescopeOutput(o GradescopeOptions) string {
	if o.Unfinished {
		decided := len(r.Checks) - r.Count(Skipped)
		return fmt.Sprintf("This run was not over when this was written: %d of %d checks had been decided. If you read it long "+
			"after that, something from outside ended the run, as a time limit; the points are those it had come to.",
			decided, len(r.Checks))
	}
	text := r.Summary() + ".\n"
	if r.Outcome != Graded {
		text = r.Outcome.Headline() + ": " + r.runText()
		if r.SaysNothing() {
			text += "\nThis says nothing of the submission: grade it again.\n"
		}
	}
	if remarks := r.remarks(); remarks != "" {
		text += "\n" + remarks
	}
	if r.Seed != 0 {
		text += fmt.Sprintf("\nseed: %d; to repeat this run: .cache/bin/lab grade %s --seed %d\n", r.Seed, r.Number(), r.Seed)
	}
	return text
}

// plainText is all there is to say of a check, whatever its status.
func (c *Check) plainText() string {
	text := ""
	switch c.Status {
	case Passed:
		text = c.Title + "\n"
	case Skipped:
		text = c.Reason + "\n"
	case Failed:
		text = c.text()
	}
	for _, m := range c.Measurements {
		text += "measured: " + m.String() + "\n"
	}
	return text
}

func writeJSON(w io.Writer, value any, name string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
