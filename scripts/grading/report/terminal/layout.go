// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"lva.io/operators/scripts/grading/report"
)

const (
	margin = "  "
	// maxWidth keeps points near their check on a wide screen.
	maxWidth = 104
	minWidth = 50
	// narrow is the width below which a screen has no column for IDs, so that most sentences fit into one line.
	narrow = 100
	// pointsWidth and secondsWidth fit texts such as 10/10 and 12.3 s.
	pointsWidth, secondsWidth = 5, 6
	// defaultIDWidth is the width of the column of IDs in a run whose checks are not known when its first lines are
	// printed.
	defaultIDWidth = 18
)

// page lays out the lines of one run.
type page struct {
	screen  Screen
	idWidth int
	marks
	styles
}

type marks struct{ passed, failed, skipped, step, bar, note, full, empty string }

var (
	unicodeMarks = marks{"✓", "✗", "–", "·", "┃", "!", "━", "─"}
	asciiMarks   = marks{"+", "x", "-", ".", "|", "!", "#", "."}
)

// styles use the terminal's own 16 colours, so that they suit a dark and a light one.
type styles struct{ good, bad, warn, faint, strong, normal, command lipgloss.Style }

func newPage(screen Screen, checks []report.Check) *page {
	p := &page{screen: screen, idWidth: defaultIDWidth, marks: asciiMarks}
	if screen.Unicode {
		p.marks = unicodeMarks
	}
	if len(checks) > 0 {
		p.idWidth = 0
		for _, check := range checks {
			p.idWidth = max(p.idWidth, lipgloss.Width(check.ID))
		}
	}
	if screen.Interactive && screen.Width < narrow {
		p.idWidth = 0
	}
	renderer := lipgloss.NewRenderer(io.Discard)
	renderer.SetColorProfile(termenv.Ascii)
	if screen.Color {
		renderer.SetColorProfile(termenv.ANSI)
	}
	color := func(c string) lipgloss.Style { return renderer.NewStyle().Foreground(lipgloss.Color(c)) }
	p.styles = styles{
		good: color("2"), bad: color("1").Bold(true), warn: color("3"),
		faint: renderer.NewStyle().Faint(true), strong: renderer.NewStyle().Bold(true), normal: renderer.NewStyle(),
		command: color("6"),
	}
	return p
}

// width returns the width of the text between the margins. The right margin keeps a terminal from wrapping a full
// line by itself.
func (p *page) width() int {
	return min(max(p.screen.Width, minWidth), maxWidth) - len(margin) - 1
}

// header returns the lines with the lab and the submission.
func (p *page) header(r *report.Report, o Options) string {
	if !p.screen.Interactive {
		return fmt.Sprintf("lab %s: %s, in %s\n", r.Lab, r.Title, o.dir(r))
	}
	number := r.Number()
	left, right := "Lab "+number+"  "+r.Title, o.dir(r)
	gap := p.width() - lipgloss.Width(left) - lipgloss.Width(right)
	line := "Lab " + number + "  " + p.strong.Render(r.Title)
	if gap < 2 {
		return "\n" + margin + line + "\n" + margin + p.faint.Render(right) + "\n\n"
	}
	return "\n" + margin + line + strings.Repeat(" ", gap) + p.faint.Render(right) + "\n\n"
}

// row returns a line in the columns mark, ID, text, points and seconds. A text too long for its column continues
// below.
func (p *page) row(mark string, style, textStyle lipgloss.Style, id, text, points, seconds string) string {
	idColumn := 0
	if p.idWidth > 0 {
		idColumn = p.idWidth + 2
	} else {
		id = ""
	}
	textWidth := p.width() - 2 - idColumn - 2 - pointsWidth - 2 - secondsWidth
	wrapped := wrap(text, textWidth)
	var out strings.Builder
	for i, line := range wrapped {
		if i == 0 {
			out.WriteString(margin + style.Render(mark) + " " + paint(style, id) + spaces(idColumn, id) + paint(textStyle, line))
			if points != "" || seconds != "" {
				out.WriteString(spaces(textWidth+2, line) + spaces(pointsWidth, points) + paint(style, points))
			}
			if seconds != "" {
				out.WriteString(spaces(2+secondsWidth, seconds) + p.faint.Render(seconds))
			}
		} else {
			out.WriteString("\n" + margin + strings.Repeat(" ", 2+idColumn) + textStyle.Render(line))
		}
	}
	return out.String() + "\n"
}

// step returns the line of a step that ended.
func (p *page) step(name string, seconds float64, note string) string {
	if !p.screen.Interactive {
		line := fmt.Sprintf("step %-*s %10s", p.idWidth, name, duration(seconds))
		if note != "" {
			line += "  " + note
		}
		return line + "\n"
	}
	return p.row(p.marks.step, p.faint, p.faint, name, p.labelled(name, note), "", duration(seconds))
}

// check returns the line of a check that ended, and its measurements below.
func (p *page) check(c *report.Check) string {
	return p.checkRow(c) + p.measurements(c)
}

func (p *page) measurements(c *report.Check) string {
	if len(c.Measurements) == 0 {
		return ""
	}
	figures := make([]string, len(c.Measurements))
	for i, m := range c.Measurements {
		figures[i] = m.String()
	}
	if !p.screen.Interactive {
		return fmt.Sprintf("measured %s: %s\n", c.ID, strings.Join(figures, "; "))
	}
	indent := 2
	if p.idWidth > 0 {
		indent += p.idWidth + 2
	}
	var out strings.Builder
	for _, line := range wrap(strings.Join(figures, " "+p.marks.step+" "), p.width()-indent) {
		out.WriteString(margin + strings.Repeat(" ", indent) + p.faint.Render(line) + "\n")
	}
	return out.String()
}

func (p *page) checkRow(c *report.Check) string {
	points := fmt.Sprintf("%d/%d", c.Points, c.MaxPoints)
	reason := strings.TrimPrefix(c.Reason, "skipped: ")
	if !p.screen.Interactive {
		word, took, text := "ok", duration(c.Seconds), c.Title
		switch c.Status {
		case report.Failed:
			word = "FAIL"
		case report.Skipped:
			word, took, text = "skip", "-", fmt.Sprintf("%s (%s)", c.Title, reason)
		case report.Passed:
		}
		return fmt.Sprintf("%-4s %-*s %5s %*s  %s\n", word, p.idWidth, c.ID, points, secondsWidth, took, text)
	}
	switch c.Status {
	case report.Passed:
		return p.row(p.passed, p.good, p.normal, c.ID, c.Title, points, duration(c.Seconds))
	case report.Failed:
		return p.row(p.failed, p.bad, p.strong, c.ID, p.labelled(c.ID, c.Title), points, duration(c.Seconds))
	default:
		// The row shows the reason instead of the title, because the check did not examine the submission.
		return p.row(p.skipped, p.faint, p.faint, c.ID, p.labelled(c.ID, reason), points, "")
	}
}

// labelled puts an ID before a text if there is no column for IDs. A check that passed does not need it.
func (p *page) labelled(id, text string) string {
	switch {
	case p.idWidth > 0:
		return text
	case text == "":
		return id
	default:
		return id + ": " + text
	}
}

// bar draws the score as a bar of this many columns.
func (p *page) bar(score, maxScore, columns int) string {
	filled := 0
	if maxScore > 0 {
		filled = min(columns, max(0, score)*columns/maxScore)
	}
	style := p.warn
	if score >= maxScore {
		style = p.good
	}
	return paint(style, strings.Repeat(p.full, filled)) + paint(p.faint, strings.Repeat(p.empty, columns-filled))
}

// duration formats seconds in at most secondsWidth columns, up to three hours.
func duration(seconds float64) string {
	if seconds >= 100 {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// paint styles a text. It returns an empty string for an empty text.
func paint(style lipgloss.Style, text string) string {
	if text == "" {
		return ""
	}
	return style.Render(text)
}

// spaces returns the spaces that fill a column after a text, or none if the text is too wide.
func spaces(width int, text string) string {
	return strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
}

// wrap breaks lines at spaces so that none is wider than a number of columns. It breaks a word only if the word alone
// is too wide. It keeps spaces inside a line, since they align evidence, and repeats the line's indentation. It
// returns at least one line.
func wrap(text string, width int) []string {
	width = max(width, 16)
	var wrapped []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:min(len(line)-len(strings.TrimLeft(line, " ")), width/2)]
		for lipgloss.Width(line) > width {
			cut := fitting(line, width)
			if space := strings.LastIndexByte(line[:cut+1], ' '); strings.TrimSpace(line[:space+1]) != "" {
				cut = space
			}
			wrapped = append(wrapped, strings.TrimRight(line[:cut], " "))
			line = indent + strings.TrimLeft(line[cut:], " ")
		}
		wrapped = append(wrapped, line)
	}
	return wrapped
}

// truncate cuts a line that is too wide, and appends an ellipsis.
func (p *page) truncate(line string, width int) string {
	if lipgloss.Width(line) <= width {
		return line
	}
	ellipsis := p.ellipsis()
	return line[:fitting(line, width-lipgloss.Width(ellipsis))] + ellipsis
}

func (p *page) ellipsis() string {
	if p.screen.Unicode {
		return "…"
	}
	return "..."
}

// fitting returns how many bytes of a line that is too wide fit into a number of columns. It returns at least the
// bytes of one character.
func fitting(line string, width int) int {
	columns := 0
	for i, r := range line {
		columns += lipgloss.Width(string(r))
		if columns > width {
			return max(i, utf8.RuneLen(r))
		}
	}
	return len(line)
}
