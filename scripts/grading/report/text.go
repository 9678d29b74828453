// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// RunTest is the name of the test that a run without a grade gets in formats that know only tests. It can't be the ID
// of a check, because these have no parentheses.
const RunTest = "(run)"

// Text returns all that is known about a failed check.
func (c *Check) Text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "expected: %s\nobserved: %s\n", c.Expected, c.Observed)
	for _, line := range c.Evidence {
		fmt.Fprintf(&text, "evidence: %s\n", line)
	}
	if c.Lecture != "" {
		fmt.Fprintf(&text, "lecture: %s\n", c.Lecture)
	}
	fmt.Fprintf(&text, "points: %d of %d\n", c.Points, c.MaxPoints)
	return text.String()
}

// RunText explains why a run has no grade.
func (r *Report) RunText() string {
	var text strings.Builder
	text.WriteString(r.Reason + "\n")
	for _, diagnostic := range r.Diagnostics {
		if position := diagnostic.Position(); position != "" {
			text.WriteString(position + ": ")
		}
		text.WriteString(diagnostic.Message + "\n")
	}
	for _, line := range r.OperatorLog {
		text.WriteString("log: " + line + "\n")
	}
	return text.String()
}

// Remarks returns the forbidden requests and the notices, a line each.
func (r *Report) Remarks() string {
	var text strings.Builder
	for _, f := range r.Forbidden {
		fmt.Fprintf(&text, "forbidden (%d requests); if you want them, add above Reconcile: %s\n", f.Count, f.Marker)
	}
	for _, notice := range r.Notices {
		fmt.Fprintf(&text, "notice: %s\n", notice)
	}
	return text.String()
}

// PlainText returns all that is known about a check, whatever its status.
func (c *Check) PlainText() string {
	text := ""
	switch c.Status {
	case Passed:
		text = c.Title + "\n"
	case Skipped:
		text = c.Reason + "\n"
	case Failed:
		text = c.Text()
	}
	for _, m := range c.Measurements {
		text += "measured: " + m.String() + "\n"
	}
	return text
}

// WithoutGrade returns the title of a run without a grade, for formats that know only tests. The title is empty if the
// run has a grade. points are the points that belong to no check: all of them if the run ended before it knew its
// checks.
func (r *Report) WithoutGrade() (title string, points int) {
	if r.Outcome == Graded && len(r.Checks) > 0 {
		return "", 0
	}
	title, points = r.Outcome.Headline(), r.MaxScore
	if r.Outcome == Graded {
		title = "Nothing was checked"
	}
	for _, check := range r.Checks {
		if !check.Extension {
			points -= check.MaxPoints
		}
	}
	return title, max(0, points)
}

// EndedBeforeChecks reports whether the run ended before its first check.
func (r *Report) EndedBeforeChecks() bool {
	return r.Outcome != Graded && r.Count(Skipped) == len(r.Checks)
}

// LogTail returns some lines of the operator's log: the last ones, or the first ones of a panic, which show more of
// its cause.
func (r *Report) LogTail(limit int) []string {
	lines := r.OperatorLog
	if start := slices.IndexFunc(lines, Panics); start >= 0 {
		return lines[start:min(len(lines), start+limit)]
	}
	return lines[max(0, len(lines)-limit):]
}

// Panics reports whether a line of a log begins a panic.
func Panics(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")
}

// Figure returns the value of a measurement with its unit, for people.
func (m Measurement) Figure() string { return strings.TrimSpace(significant(m.Value) + " " + m.Unit) }

// Decided reports whether the check passed or failed.
func (c *Check) Decided() bool { return c.Status != Skipped }

// WriteJSON writes a value as JSON that people can read, too. name is the name of the value in errors.
func WriteJSON(w io.Writer, value any, name string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // <, > and & are for people to read
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
