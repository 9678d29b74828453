// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// These are the limits of a report. A submission influences its size, so everything is limited.
const (
	// MaxLine is the limit for a line of evidence, a line of a log and every other single line, in characters.
	MaxLine = 500
	// MaxText is the limit for texts that may have several lines (expected, observed, a compiler's message), in
	// characters.
	MaxText = 4000
	// MaxLogLines is how many lines of the operator's log are kept: the last ones.
	MaxLogLines = 40
	// MaxEvidence is how many lines of evidence of a check are kept: the first ones.
	MaxEvidence = 50
	// MaxItems is how many diagnostics, notices and forbidden requests are kept: the first ones.
	MaxItems = 100
	// MaxMeasurements is how many measurements of a check are kept: the first ones.
	MaxMeasurements = 20
	// MaxTimeline is how many moments are kept: see shortenTimeline.
	MaxTimeline = 2000
)

// Sanitize makes everything that comes from a submission safe for every reader, in place, and keeps lists within
// their limits. Write calls it, too. Call it before showing a report that was not written. A second call changes
// nothing.
func (r *Report) Sanitize() {
	r.Schema = Schema
	r.Started = r.Started.UTC().Truncate(time.Millisecond)
	r.Seconds = seconds(r.Seconds)
	lines(&r.Lab, &r.Title, &r.Reason, &r.Submission.Dir, &r.Submission.Module, &r.Submission.Go,
		&r.Submission.ControllerRuntime,
		&r.Environment.Cluster, &r.Environment.Kubernetes, &r.Environment.OS, &r.Environment.Arch)

	r.Submission.Arguments = first(r.Submission.Arguments, MaxItems)
	for i := range r.Submission.Arguments {
		lines(&r.Submission.Arguments[i])
	}
	if r.Outcome != Graded && r.Reason == "" {
		r.Reason = "the run ended without a reason"
	}
	// The schema demands [] and not null for these lists. They are copies, so that the caller's arrays stay unchanged.
	r.Steps = append([]Step{}, r.Steps...)
	for i := range r.Steps {
		lines(&r.Steps[i].Name)
		r.Steps[i].Seconds = seconds(r.Steps[i].Seconds)
	}
	r.Checks = append([]Check{}, r.Checks...)
	for i := range r.Checks {
		check := &r.Checks[i]
		check.Sanitize()
		check.complete()
	}
	r.Forbidden = slices.Clone(r.Forbidden[:min(len(r.Forbidden), MaxItems)])
	for i := range r.Forbidden {
		f := &r.Forbidden[i]
		lines(&f.Verb, &f.Group, &f.Resource, &f.Subresource, &f.Marker)
	}
	r.Notices = first(r.Notices, MaxItems)
	for i := range r.Notices {
		lines(&r.Notices[i])
	}
	r.Notices = slices.DeleteFunc(r.Notices, func(notice string) bool { return notice == "" })
	r.Diagnostics = slices.Clone(r.Diagnostics[:min(len(r.Diagnostics), MaxItems)])
	for i := range r.Diagnostics {
		d := &r.Diagnostics[i]
		lines(&d.File)
		texts(&d.Message)
		d.Line, d.Column = max(0, d.Line), max(0, d.Column)
		if d.Message == "" {
			d.Message = "(no message)"
		}
	}
	r.OperatorLog = slices.Clone(r.OperatorLog[max(0, len(r.OperatorLog)-MaxLogLines):])
	for i := range r.OperatorLog {
		lines(&r.OperatorLog[i])
	}
	r.Timeline = timeline(r.Timeline)
}

// Sanitize sanitizes one check, as Report.Sanitize does for all checks.
func (c *Check) Sanitize() {
	lines(&c.ID, &c.Title, &c.Part, &c.Reason, &c.Lecture)
	texts(&c.Expected, &c.Observed)
	c.At, c.Seconds = seconds(c.At), seconds(c.Seconds)
	c.Evidence = first(c.Evidence, MaxEvidence)
	for i := range c.Evidence {
		lines(&c.Evidence[i])
	}
	c.Measurements = measurements(c.Measurements)
	c.Causes = slices.Clone(c.Causes)
	for i := range c.Causes {
		lines(&c.Causes[i])
	}
}

// measurements drops NaN and infinite values, which JSON can't represent.
func measurements(all []Measurement) []Measurement {
	all = slices.Clone(all)
	for i := range all {
		lines(&all[i].Name, &all[i].Unit)
	}
	all = slices.DeleteFunc(all, func(m Measurement) bool {
		return m.Name == "" || math.IsNaN(m.Value) || math.IsInf(m.Value, 0)
	})
	return all[:min(len(all), MaxMeasurements)]
}

// timeline sanitizes the moments and sorts them by time.
func timeline(all []Moment) []Moment {
	all = slices.Clone(all)
	for i := range all {
		moment := &all[i]
		lines(&moment.Service, &moment.What, &moment.Fault)
		moment.At, moment.Seconds = seconds(moment.At), seconds(moment.Seconds)
		if moment.What == "" {
			moment.What = "(unknown)"
		}
		if moment.Code < 100 || moment.Code > 999 {
			moment.Code = 0
		}
	}
	slices.SortStableFunc(all, func(a, b Moment) int { return cmp.Compare(a.At, b.At) })
	return shortenTimeline(all)
}

// shortenTimeline keeps MaxTimeline moments. An operator in an endless loop sends thousands of similar requests. So
// shortenTimeline drops the last successful reads first, and the last of the other moments only if that is not
// enough.
func shortenTimeline(all []Moment) []Moment {
	const gone = -1 // no moment is before the run
	for i, surplus := len(all)-1, len(all)-MaxTimeline; i >= 0 && surplus > 0; i-- {
		if all[i].isRoutine() {
			all[i].At = gone
			surplus--
		}
	}
	all = slices.DeleteFunc(all, func(m Moment) bool { return m.At == gone })
	return all[:min(len(all), MaxTimeline)]
}

// isRoutine reports whether the moment is a successful read.
func (m *Moment) isRoutine() bool {
	verb, _, _ := strings.Cut(m.What, " ")
	return m.Service != ServiceOperator && m.Fault == "" && m.Code < 300 &&
		slices.Contains([]string{"get", "list", "watch"}, verb)
}

// complete fills in texts that a check left empty, and drops those that its status makes meaningless. A careless
// check then costs one sentence and not the whole report.
func (c *Check) complete() {
	switch c.Status {
	case Failed:
		c.Reason = ""
		if c.Expected == "" {
			c.Expected = c.Title
		}
		if c.Observed == "" {
			c.Observed = "(the check reported no observation)"
		}
	case Skipped:
		c.Expected, c.Observed = "", ""
		if c.Reason == "" {
			c.Reason = "skipped: no reason was given"
		}
	case Passed:
		c.Expected, c.Observed, c.Reason = "", "", ""
	}
}

// Safe returns a text that can be shown safely. The result is valid UTF-8. Control sequences for terminals are
// removed. Other control characters, and those that change the direction of writing, are made visible (\x07, \u202e).
// Line feeds and tabs stay.
func Safe(text string) string {
	if isPrintable(text) {
		return text
	}
	text = escapeSequence.ReplaceAllString(strings.ToValidUTF8(text, string(utf8.RuneError)), "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.ContainsFunc(text, unsafe) {
		return text
	}
	var safe strings.Builder
	for _, r := range text {
		switch {
		case !unsafe(r):
			safe.WriteRune(r)
		case r == '\uFFFE' || r == '\uFFFF':
			safe.WriteRune(utf8.RuneError)
		case r < 0x100:
			fmt.Fprintf(&safe, `\x%02x`, r)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	return safe.String()
}

// isPrintable reports whether a text is printable ASCII, as nearly all texts are.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// escapeSequence matches whole sequences by which a program colours its log or controls a terminal: CSI (ECMA-48,
// 5.4), OSC and the other strings with an end (5.6), and two-character ones. A sequence without an end is not
// matched. Only its escape character is made visible then, and the text after it stays.
var escapeSequence = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|" +
	"\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|" +
	"\x1b[ -/]+[0-~]|" +
	"\x1b[0-OQ-WYZ\\\\`-~]")

func unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == '\u2028' || r == '\u2029', // unexpected line separators
		r == '\uFFFE' || r == '\uFFFF', // forbidden in XML 1.0, section 2.2
		unicode.Is(unicode.Bidi_Control, r):
		return true
	}
	return unicode.IsControl(r)
}

// OneLine makes a text safe and puts it on one line. It keeps the spaces at the start, because they align evidence and
// indent a stack trace.
func OneLine(text string) string {
	text = strings.TrimRight(strings.TrimLeft(Safe(text), "\n"), " \t\n")
	return shorten(breaks.Replace(text), MaxLine)
}

var breaks = strings.NewReplacer("\n", `\n`, "\t", "    ")

func lines(all ...*string) {
	for _, text := range all {
		*text = OneLine(*text)
	}
}

func texts(all ...*string) {
	for _, text := range all {
		*text = shorten(strings.TrimSpace(strings.ReplaceAll(Safe(*text), "\t", "    ")), MaxText)
	}
}

// shorten limits a text to a number of characters. An ellipsis marks a shortened text.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// first keeps the first items. If it drops any, the last item is the number of the others.
func first(items []string, limit int) []string {
	if len(items) <= limit {
		return slices.Clone(items)
	}
	kept := slices.Clone(items[:limit-1])
	return append(kept, fmt.Sprintf("… and %d more", len(items)-len(kept)))
}

// seconds rounds to milliseconds. It returns 0 for a value that is no duration and has no form in JSON (from a clock
// that was set back, or a division by zero).
func seconds(s float64) float64 {
	if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
		return 0
	}
	return math.Round(s*1000) / 1000
}
