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

// RunTest is what forms that know nothing but tests call the one that a run without a grade gets besides. No id of a
// check has parentheses.
const RunTest = "(run)"

// Text is all there is to say of a failed check.
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

// RunText is what explains why a run has no grade.
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

// Remarks are the forbidden requests and the notices, a line each.
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

// PlainText is all there is to say of a check, whatever its status.
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

// WithoutGrade names what a run without a grade is called among its tests, for formats that know nothing but tests;
// empty if it has a grade. points are those that no check has: all, where the run ended before it knew its checks.
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

// CameToNoCheck is true of a run that ended before its first check.
func (r *Report) CameToNoCheck() bool {
	return r.Outcome != Graded && r.Count(Skipped) == len(r.Checks)
}

// LastWords are some lines of the operator's log: the last ones, or those after a panic, whose first lines say more.
func (r *Report) LastWords(limit int) []string {
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

// Figure is the value of a measurement as a person reads it.
func (m Measurement) Figure() string { return strings.TrimSpace(significant(m.Value) + " " + m.Unit) }

// Decided is true for a check that says something of the submission.
func (c *Check) Decided() bool { return c.Status != Skipped }

// WriteJSON writes a value as a file that people read, too. name is what it is called if that fails.
func WriteJSON(w io.Writer, value any, name string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // <, > and & are for people to read
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
