// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/grading/report"
)

// These are the limits of what is shown. The report contains everything.
const (
	maxDiagnostics = 5
	maxEvidence    = 10
	maxLogLines    = 12
	maxOthers      = 5
)

// Options define which commands and files the output mentions. Use the zero value if nothing is known.
type Options struct {
	// Commands are the commands to suggest. Empty ones are not suggested.
	Commands Commands
	// File is the file of the whole report, which is named if something is left out. Page is the same for a browser, and
	// OperatorLog is the operator's log. Empty ones are not named.
	File, Page, OperatorLog string
	// Dir is the submission's folder as a person would type it. Default: the folder in the report.
	Dir string
	// First is the ID of a check that failed last time and now runs before the others: Live shows its verdict as soon as
	// there is one.
	First string
	// Screen is the screen to write for. If it is nil, Detect finds it.
	Screen *Screen
}

func (o Options) dir(r *report.Report) string {
	return cmp.Or(o.Dir, r.Submission.Dir)
}

// Commands are the commands that a person can type next, such as `make hint-2` or, for a folder outside the repository,
// `lab hint 2`.
type Commands struct {
	// Hint shows the next hint for the check that is explained.
	Hint string
	// Read returns the command that shows a check's lecture (file#anchor), which may be that of an earlier lab. If it is
	// nil, there is no such command.
	Read func(lecture string) string
	// Grade repeats this run. Torture and then Next are suggested after full marks.
	Grade, Torture, Next string
	// Replay, such as `lab grade 3 --solution`, repeats this run when `--seed S` is added to it. Default: lab grade and
	// the lab's number.
	Replay string
}

func (o Options) screen(w io.Writer) Screen {
	if o.Screen != nil {
		return *o.Screen
	}
	return Detect(w, os.Getenv)
}

// Render shows a whole run from its report: header, steps, checks and verdict.
func Render(w io.Writer, r *report.Report, o Options) error {
	safe := *r
	safe.Sanitize()
	p := newPage(o.screen(w), safe.Checks)
	var out strings.Builder
	out.WriteString(p.header(&safe, o))
	out.WriteString(p.steps(safe.Steps))
	// If no check ran, a list of checks with the same reason would only hide it.
	if !noCheckRan(&safe) {
		if p.screen.Interactive && len(safe.Steps) > 0 {
			out.WriteString("\n")
		}
		for i := range safe.Checks {
			out.WriteString(p.check(&safe.Checks[i]))
		}
	}
	out.WriteString(p.verdict(&safe, o))
	_, err := io.WriteString(w, out.String())
	return err
}

// Verdict shows the result of a run whose steps and checks Live has shown.
func Verdict(w io.Writer, r *report.Report, o Options) error {
	safe := *r
	safe.Sanitize()
	p := newPage(o.screen(w), safe.Checks)
	_, err := io.WriteString(w, p.verdict(&safe, o))
	return err
}

// steps returns the steps, on a terminal in one compact line: after a run they matter little.
func (p *page) steps(steps []report.Step) string {
	if len(steps) == 0 {
		return ""
	}
	if !p.screen.Interactive {
		var out strings.Builder
		for _, step := range steps {
			out.WriteString(p.step(step.Name, step.Seconds, ""))
		}
		return out.String()
	}
	parts := make([]string, len(steps))
	for i, step := range steps {
		// A line break must not separate a time from its step.
		parts[i] = strings.ReplaceAll(step.Name+" "+duration(step.Seconds), " ", "\u00a0")
	}
	var out strings.Builder
	for _, line := range wrap(strings.Join(parts, " "+p.marks.step+" "), p.width()) {
		out.WriteString(margin + p.faint.Render(strings.ReplaceAll(line, "\u00a0", " ")) + "\n")
	}
	return out.String()
}

func noCheckRan(r *report.Report) bool {
	return r.Outcome != report.Graded && r.Count(report.Skipped) == len(r.Checks)
}

func (p *page) verdict(r *report.Report, o Options) string {
	var out strings.Builder
	if r.Outcome != report.Graded {
		out.WriteString(p.noGrade(r, o))
	}
	if explained := r.Explained(); explained != nil {
		out.WriteString(p.failure(explained, r.AlsoFailed(), o))
	}
	out.WriteString(p.permissions(r.Forbidden))
	out.WriteString(p.notices(r.Notices))
	out.WriteString(p.score(r, o))
	return out.String()
}

// noGrade explains why a run has no grade: the reason, the first errors, the end of the log.
func (p *page) noGrade(r *report.Report, o Options) string {
	headline := r.Outcome.Headline()
	b := p.block(p.bad)
	if !p.screen.Interactive {
		b.add("outcome: %s", r.Outcome)
		b.add("reason: %s", r.Reason)
	} else {
		b.title(p.failed, headline)
		b.text("", p.normal, r.Reason)
	}
	p.diagnostics(b, r, o)
	p.log(b, r, o)
	return b.String()
}

func (p *page) diagnostics(b *block, r *report.Report, o Options) {
	for i, d := range r.Diagnostics {
		if i == maxDiagnostics && p.screen.Interactive {
			b.blank()
			b.more(len(r.Diagnostics)-i, o)
			return
		}
		if d.File != "" && !path.IsAbs(d.File) {
			// The path is relative to the folder in which the command was typed, so that an editor or a click opens it.
			d.File = path.Join(o.dir(r), d.File)
		}
		if !p.screen.Interactive {
			b.add("error: %s", strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
			continue
		}
		b.blank()
		if position := d.Position(); position != "" {
			// A position is never wrapped, so that it can be clicked or copied.
			b.line(p.command.Render(position))
			b.text("  ", p.normal, d.Message)
		} else {
			b.text("", p.normal, d.Message)
		}
	}
}

// log shows the end of the operator's log, or the lines of its panic.
func (p *page) log(b *block, r *report.Report, o Options) {
	lines := r.OperatorLog
	if len(lines) == 0 {
		return
	}
	if !p.screen.Interactive {
		for _, line := range lines {
			b.add("log: %s", line)
		}
		return
	}
	b.blank()
	shown := r.LogTail(maxLogLines)
	for _, line := range shown {
		if report.Panics(line) {
			b.text("", p.bad, line)
			continue
		}
		wrapped := wrap(line, b.width())
		if len(wrapped) > 2 {
			wrapped = []string{wrapped[0], p.truncate(wrapped[1]+" "+wrapped[2], b.width())}
		}
		for _, part := range wrapped {
			b.line(p.faint.Render(part))
		}
	}
	if more := len(lines) - len(shown); more > 0 {
		b.more(more, o)
	}
}

// failure explains a failed check: what was expected, what was observed, and where to read more. It also names the
// other checks that failed.
func (p *page) failure(c *report.Check, others []*report.Check, o Options) string {
	b := p.block(p.bad)
	if !p.screen.Interactive {
		b.add("fix first: %s: %s", c.ID, c.Title)
		b.add("expected: %s", c.Expected)
		b.add("observed: %s", c.Observed)
		for _, line := range c.Evidence {
			b.add("evidence: %s", line)
		}
		if c.Lecture != "" {
			b.add("lecture: %s", c.Lecture)
		}
		for _, h := range o.help(c) {
			b.add("%s: %s", h.word, h.command)
		}
		for _, other := range others {
			b.add("also failed: %s: %s", other.ID, firstLine(other.Observed))
		}
		return b.String()
	}
	b.title(p.failed, c.ID+": "+c.Title)
	b.field("expected", p.normal, c.Expected)
	b.field("observed", p.strong, c.Observed)
	if len(c.Evidence) > 0 {
		shown := c.Evidence[:min(len(c.Evidence), maxEvidence)]
		b.field("evidence", p.normal, strings.Join(shown, "\n"))
		if more := len(c.Evidence) - len(shown); more > 0 {
			b.field("", p.faint, p.leftOut(more, o))
		}
	}
	if c.Lecture != "" {
		b.field("lecture", p.normal, c.Lecture)
	}
	label, column := "next", 0
	for _, h := range o.help(c) {
		column = max(column, lipgloss.Width(h.command))
	}
	for _, h := range o.help(c) {
		b.raw(label, p.command.Render(h.command)+spaces(column+2, h.command)+h.meaning)
		label = ""
	}
	p.others(b, others, o)
	return b.String()
}

// others writes one line for each of the other failed checks. Their failures may follow from the one that is
// explained.
func (p *page) others(b *block, others []*report.Check, o Options) {
	label := "also"
	for i, other := range others {
		if i == maxOthers {
			b.field("", p.faint, p.leftOut(len(others)-i, o))
			return
		}
		if i == 0 {
			b.blank()
		}
		b.raw(label, p.truncate(other.ID+": "+firstLine(other.Observed), b.width()-labelWidth))
		label = ""
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// help is a command that helps with a failed check.
type help struct{ word, command, meaning string }

func (o Options) help(c *report.Check) []help {
	var helps []help
	if o.Commands.Hint != "" {
		helps = append(helps, help{"hint", o.Commands.Hint, "a hint"})
	}
	if o.Commands.Read != nil && c.Lecture != "" {
		helps = append(helps, help{"read", o.Commands.Read(c.Lecture), "the lecture on it"})
	}
	return helps
}

// permissions returns the missing markers, as lines to paste.
func (p *page) permissions(forbidden []report.Forbidden) string {
	if len(forbidden) == 0 {
		return ""
	}
	var markers, requests []string
	for _, f := range forbidden {
		if !slices.Contains(markers, f.Marker) {
			markers = append(markers, f.Marker)
		}
		resource := f.Resource
		if f.Subresource != "" {
			resource += "/" + f.Subresource
		}
		requests = append(requests, fmt.Sprintf("%s %s (%s)", f.Verb, resource, times(f.Count)))
	}
	if !p.screen.Interactive {
		b := p.block(p.warn)
		for i, f := range forbidden {
			b.add("forbidden: %s; if you want this request, add above Reconcile: %s", requests[i], f.Marker)
		}
		return b.String()
	}
	these, it := "this request", "it"
	if len(requests) > 1 {
		these, it = "these requests", "them"
	}
	var out strings.Builder
	out.WriteString("\n" + p.remark("Its role forbids the operator to "+english.WordSeries(requests, "and")+". "+
		"Do you want "+these+"? If so, add above Reconcile what follows. "+
		"If not, remove the call that sends "+it+".") + "\n")
	for _, marker := range markers {
		// These lines are neither wrapped nor behind a bar, so that they can be copied.
		out.WriteString(margin + p.command.Render(marker) + "\n")
	}
	return out.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (p *page) notices(notices []string) string {
	if len(notices) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n")
	for _, notice := range notices {
		if !p.screen.Interactive {
			out.WriteString("notice: " + notice + "\n")
			continue
		}
		out.WriteString(p.remark(notice))
	}
	return out.String()
}

// remark returns a sentence that is no failure.
func (p *page) remark(text string) string {
	var out strings.Builder
	mark := p.warn.Render(p.note)
	for _, line := range wrap(text, p.width()-2) {
		out.WriteString(margin + mark + " " + line + "\n")
		mark = " "
	}
	return out.String()
}

// score returns the last lines: the points, a bar, and what to do next.
func (p *page) score(r *report.Report, o Options) string {
	points := r.Points()
	next := nextStep(r, o)
	if !p.screen.Interactive {
		return "\n" + p.files(r, o) + p.seed(r, o) + counts(r) + "\n" + p.milestones(r) +
			strings.TrimSuffix(points+"; "+next, "; ") + "\n"
	}
	const columns = 20
	line := p.strong.Render(points)
	if !r.Inconclusive() {
		line += "  " + p.bar(r.Score, r.MaxScore, columns)
	}
	out := "\n" + p.files(r, o) + p.seed(r, o) + margin + p.faint.Render(counts(r)) + "\n" + p.milestones(r)
	switch {
	case next == "":
		out += margin + line + "\n"
	case lipgloss.Width(line)+2+lipgloss.Width(next) <= p.width():
		out += margin + line + "  " + next + "\n"
	default:
		out += margin + line + "\n" + margin + next + "\n"
	}
	return out + "\n"
}

// milestones returns the points of each milestone, in a lab that has milestones.
func (p *page) milestones(r *report.Report) string {
	text := r.MilestonesText()
	switch {
	case text == "":
		return ""
	case !p.screen.Interactive:
		return "milestones: " + text + "\n"
	}
	return margin + p.faint.Render(text) + "\n"
}

// files names the operator's log and the page, in one line if they fit.
func (p *page) files(r *report.Report, o Options) string {
	var files []string
	if len(r.OperatorLog) > 0 && o.OperatorLog != "" {
		files = append(files, o.OperatorLog)
	}
	if o.Page != "" {
		files = append(files, o.Page)
	}
	if len(files) == 0 {
		return ""
	}
	const label = "files: "
	if !p.screen.Interactive {
		return label + strings.Join(files, ", ") + "\n"
	}
	if text := label + strings.Join(files, ", "); lipgloss.Width(text) <= p.width() {
		return margin + p.faint.Render(text) + "\n"
	}
	return margin + p.faint.Render(label+strings.Join(files, ",\n"+margin+spaces(len(label), ""))) + "\n"
}

// seed returns how to repeat the run, with the same random choices and faults.
func (p *page) seed(r *report.Report, o Options) string {
	if r.Seed == 0 {
		return ""
	}
	replay := fmt.Sprintf("%s --seed %d", cmp.Or(o.Commands.Replay, "lab grade "+r.Number()), r.Seed)
	text := fmt.Sprintf("seed %d; to repeat this run: ", r.Seed)
	if !p.screen.Interactive {
		return "seed: " + strings.TrimPrefix(text, "seed ") + replay + "\n"
	}
	if lipgloss.Width(text+replay) > p.width() {
		return margin + p.faint.Render(strings.TrimSuffix(text, " ")) + "\n" + margin + p.command.Render(replay) + "\n"
	}
	return margin + p.faint.Render(text) + p.command.Render(replay) + "\n"
}

func counts(r *report.Report) string {
	if noCheckRan(r) {
		return fmt.Sprintf("none of the %d checks ran; it took %s", len(r.Checks), duration(r.Seconds))
	}
	var parts []string
	for _, status := range []report.Status{report.Passed, report.Failed, report.Skipped} {
		if n := r.Count(status); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ") + " in " + duration(r.Seconds)
}

// nextStep returns the most useful instruction.
func nextStep(r *report.Report, o Options) string {
	then := func(what string) string {
		if o.Commands.Grade == "" {
			return what
		}
		return what + ", then " + o.Commands.Grade
	}
	explained := r.Explained()
	switch {
	case r.FullMarks() && explained == nil && o.Commands.Torture+o.Commands.Next != "":
		next := slices.DeleteFunc([]string{o.Commands.Torture, o.Commands.Next}, func(command string) bool {
			return command == ""
		})
		return "all done; next: " + strings.Join(next, ", then ")
	case r.FullMarks() && explained == nil:
		return "all done"
	case r.Undecided > 0 && r.Outcome == report.Graded && explained == nil:
		return "to get a grade, run it where Pods can run"
	case r.Inconclusive():
		if o.Commands.Grade == "" {
			return "try again"
		}
		return "try again: " + o.Commands.Grade
	case r.Outcome == report.NotBuilt && len(r.Diagnostics) > 0:
		return then("fix the first error")
	case r.Outcome != report.Graded || explained == nil:
		return then("fix this")
	default:
		return then("fix " + explained.ID)
	}
}

func (p *page) leftOut(n int, o Options) string {
	text := fmt.Sprintf("%s and %d more", p.ellipsis(), n)
	if o.File != "" {
		text += " in " + o.File
	}
	return text
}
