// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package markdown writes a report as a summary in GitHub's Markdown.
package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

const (
	// maxBytes is the size, in bytes, from which a summary omits details: GitHub shows a job summary of up to 1 MiB, and
	// nothing of a larger one.
	maxBytes = 256 << 10
	// maxLines is how many lines of evidence and of a log are shown.
	maxLines = 12
)

// Write writes a summary in GitHub's Markdown, as a workflow adds it to GITHUB_STEP_SUMMARY. Everything that comes
// from a submission is plain text in it, without markup, links and images.
func Write(w io.Writer, r *report.Report) error {
	m := &summary{}
	m.line("## Lab %s, %s: %s", r.Number(), escape(r.Title), r.Points())
	explained := r.Explained()
	switch {
	case r.Outcome != report.Graded:
		m.line("**%s.** %s", r.Outcome.Headline(), escape(r.Reason))
		if r.Inconclusive() {
			m.line("This is not a verdict on the submission: grade it again.")
		}
	case explained != nil:
		m.line("%d of %d checks passed. Fix this first: `%s`", r.Count(report.Passed), len(r.Checks), explained.ID)
	default:
		m.line("%d of %d checks passed.", r.Count(report.Passed), len(r.Checks))
	}
	if milestones := r.MilestonesText(); milestones != "" {
		m.line("Milestones: %s.", escape(milestones))
	}
	m.diagnostics(r)
	m.checks(r)
	if explained != nil {
		m.failure(explained)
	}
	for _, check := range r.AlsoFailed() {
		m.failure(check)
	}
	m.remarks(r)
	if r.Outcome != report.Graded {
		m.block("The end of the operator's log", r.LogTail(maxLines))
	}
	if r.Seed != 0 {
		m.line("Seed %d. To repeat this run: `.cache/bin/lab grade %s --seed %d`", r.Seed, r.Number(), r.Seed)
	}
	if m.leftOut {
		m.line("There is more in the report.")
	}
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

type summary struct {
	strings.Builder
	leftOut bool
}

// line writes a paragraph.
func (m *summary) line(format string, args ...any) { fmt.Fprintf(m, format+"\n\n", args...) }

func (m *summary) checks(r *report.Report) {
	if len(r.Checks) == 0 || r.EndedBeforeChecks() {
		return
	}
	m.WriteString("| check | | points | |\n|---|---|---:|---|\n")
	for _, check := range r.Checks {
		text := check.Title
		if check.Status == report.Skipped {
			text = strings.TrimPrefix(check.Reason, "skipped: ")
		}
		status := string(check.Status)
		if check.Status == report.Failed {
			status = "**" + status + "**"
		}
		fmt.Fprintf(m, "| `%s` | %s | %d/%d | %s", check.ID, status, check.Points, check.MaxPoints, escape(text))
		for _, measurement := range check.Measurements {
			m.WriteString("<br>" + escape(measurement.String()))
		}
		m.WriteString(" |\n")
	}
	m.WriteString("\n")
}

func (m *summary) failure(c *report.Check) {
	if m.Len() > maxBytes {
		m.leftOut = true
		return
	}
	m.line("### %s: %s", c.ID, escape(c.Title))
	m.block("Expected", []string{c.Expected})
	m.block("Observed", []string{c.Observed})
	m.block("Evidence", c.Evidence)
	if c.Lecture != "" {
		m.line("Read: `%s`", strings.ReplaceAll(c.Lecture, "`", "'"))
	}
}

func (m *summary) diagnostics(r *report.Report) {
	var lines []string
	for _, d := range r.Diagnostics {
		lines = append(lines, strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
	}
	m.block("The first of them matters most", lines)
}

func (m *summary) remarks(r *report.Report) {
	var markers []string
	for _, f := range r.Forbidden {
		if !slices.Contains(markers, f.Marker) {
			markers = append(markers, f.Marker)
		}
	}
	m.block("The operator sent requests that its role does not allow. "+
		"If you want these requests, add these markers; if not, remove the calls", markers)
	for _, notice := range r.Notices {
		fmt.Fprintf(m, "- %s\n", escape(notice))
	}
	if len(r.Notices) > 0 {
		m.WriteString("\n")
	}
}

// block writes a title and lines, unchanged, in a fence that nothing in the lines can close.
func (m *summary) block(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	if m.Len() > maxBytes {
		m.leftOut = true
		return
	}
	shown := lines[:min(len(lines), maxLines)]
	text := strings.Join(shown, "\n")
	if more := len(lines) - len(shown); more > 0 {
		text += fmt.Sprintf("\n… and %d more", more)
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m, "%s:\n\n%stext\n%s\n%s\n\n", title, fence, text, fence)
}

// escape escapes everything in one line of text that GitHub would read as markup, HTML, a link or the end of a table
// cell.
func escape(text string) string { return markup.Replace(text) }

var markup = func() *strings.Replacer {
	pairs := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", "://", "&#58;//", "www.", "www&#46;"}
	for _, special := range "\\`*_{}[]()#+-!|~$" {
		pairs = append(pairs, string(special), `\`+string(special))
	}
	return strings.NewReplacer(pairs...)
}()
