// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/grading/report"
)

// Live shows a run in progress. It prints every step and check when it ends. On a terminal, the last line shows the
// current activity and how long it has taken so far. Its methods may be called from several goroutines. It ignores
// errors of writing, because no grade depends on its output.
type Live struct {
	mutex       sync.Mutex
	w           io.Writer
	page        *page
	now         func() time.Time
	active      []*activity // in the order in which they began
	frame       rune        // the spinner's current frame
	drawn       bool        // the last line is on the screen
	anyCheck    bool
	anyStep     bool
	closed      bool
	stopSpinner func()
	options     Options
	remaining   int // how many checks have not ended
}

// activity is a step or a check in progress.
type activity struct {
	name, note string
	began      time.Time
	printed    time.Time // when its progress was last printed in a pipe, or zero
	isCheck    bool
}

// NewLive prints the header of a run. The report needs to have only Lab, Title and Submission.Dir. If it also has
// Checks (planned ones), their IDs decide the width of their column. Close must be called.
func NewLive(w io.Writer, r *report.Report, o Options) *Live {
	l := newLive(w, r, o, time.Now)
	if l.page.screen.Interactive {
		l.stopSpinner = progress.Spin(l.page.screen.Unicode, l.spin)
	}
	return l
}

func newLive(w io.Writer, r *report.Report, o Options, now func() time.Time) *Live {
	safe := *r
	safe.Sanitize()
	l := &Live{
		w: w, page: newPage(o.screen(w), safe.Checks), now: now,
		stopSpinner: func() {}, options: o, remaining: len(safe.Checks),
	}
	l.frame = progress.Frames(l.page.screen.Unicode)[0]
	l.write(l.page.header(&safe, o))
	return l
}

// StepStarted reports that a step has started. Several steps may run at the same time.
func (l *Live) StepStarted(name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.start(&activity{name: name})
}

// StepProgress shows how far a step has come, such as "312 of 1840 packages", or what it waits for. In a pipe, it
// prints the first line at once, and then at most one line every ten seconds.
func (l *Live) StepProgress(name, note string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	i := l.find(name, false)
	if i < 0 || l.closed {
		return
	}
	step, now := l.active[i], l.now()
	step.note = report.Safe(note)
	if !l.page.screen.Interactive && now.Sub(step.printed) >= progress.QuietTime {
		step.printed = now
		l.write("step " + step.name + ": " + step.note + "\n")
	}
}

// StepDone prints a step and how long it took. The note is a detail of the step, such as a version, or empty.
func (l *Live) StepDone(name string, took time.Duration, note string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.end(name, false)
	l.anyStep = true
	l.print(l.page.step(report.Safe(name), took.Seconds(), report.Safe(note)))
}

// CheckStarted reports that a check has started. Only its ID and Title are used.
func (l *Live) CheckStarted(c report.Check) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.start(&activity{name: c.ID, note: report.Safe(c.Title), isCheck: true})
}

// CheckDone prints how a check ended. A skipped check need not have been started.
func (l *Live) CheckDone(c report.Check) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.end(c.ID, true)
	one := report.Report{Checks: []report.Check{c}}
	one.Sanitize()
	line := l.page.check(&one.Checks[0])
	if !l.anyCheck && l.anyStep && l.page.screen.Interactive {
		line = "\n" + line
	}
	l.anyCheck = true
	l.remaining--
	if c.ID == l.options.First && c.ID != "" {
		line += l.first(&one.Checks[0])
	}
	l.print(line)
}

// first returns the verdict on the check that failed last time, while the others still have to run.
func (l *Live) first(c *report.Check) string {
	rest := ""
	if l.remaining > 0 {
		rest = fmt.Sprintf("Checking the other %d.", l.remaining)
	}
	switch {
	case c.Status == report.Failed && l.page.screen.Interactive && rest != "":
		return l.page.failure(c, nil, l.options) + "\n" + l.page.remark(rest) + "\n"
	case c.Status == report.Failed:
		return l.page.failure(c, nil, l.options)
	case c.Status == report.Passed && l.page.screen.Interactive:
		return "\n" + l.page.remark(strings.TrimSpace("Fixed: "+c.ID+". "+rest)) + "\n"
	case c.Status == report.Passed:
		return "fixed: " + c.ID + ": " + c.Title + "\n"
	}
	return ""
}

// Close clears the last line and ends the animation. Nothing is printed after it. It may be called twice.
func (l *Live) Close() {
	l.mutex.Lock()
	if !l.closed {
		l.closed = true
		l.write(l.erase())
	}
	l.mutex.Unlock()
	l.stopSpinner()
}

// spin draws the last line with the next frame of the spinner.
func (l *Live) spin(frame rune) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.closed {
		l.frame = frame
		l.write(l.erase() + l.draw())
	}
}

func (l *Live) start(a *activity) {
	a.name, a.began = report.Safe(a.name), l.now()
	l.active = append(l.active, a)
	l.print("")
}

func (l *Live) end(name string, isCheck bool) {
	if i := l.find(report.Safe(name), isCheck); i >= 0 {
		l.active = slices.Delete(l.active, i, i+1)
	}
}

func (l *Live) find(name string, isCheck bool) int {
	return slices.IndexFunc(l.active, func(a *activity) bool { return a.name == name && a.isCheck == isCheck })
}

// print writes a finished line above the last one, in a single write to avoid flicker.
func (l *Live) print(line string) {
	if !l.closed {
		l.write(l.erase() + line + l.draw())
	}
}

func (l *Live) erase() string {
	if !l.drawn {
		return ""
	}
	l.drawn = false
	return progress.ClearLine
}

// draw returns the last line: the current activity, in the columns of the lines above. It never fills the width,
// since some terminals then begin a new line.
func (l *Live) draw() string {
	if !l.page.screen.Interactive || len(l.active) == 0 {
		return ""
	}
	l.drawn = true
	names := make([]string, len(l.active))
	note := ""
	for i, a := range l.active {
		names[i] = a.name
		if a.note != "" {
			note = a.note
		}
	}
	p := l.page
	seconds := duration(l.now().Sub(l.active[0].began).Seconds())
	text := strings.Join(names, ", ")
	switch {
	case note != "" && p.idWidth > 0:
		text += spaces(p.idWidth, text) + "  " + note
	case note != "":
		text += ": " + note
	}
	textWidth := p.width() - 2 - 2 - secondsWidth
	text = p.truncate(text, textWidth)
	return margin + p.command.Render(string(l.frame)) + " " + text +
		spaces(textWidth, text) + spaces(2+secondsWidth, seconds) + p.faint.Render(seconds)
}

// write ignores errors: a closed pipe must not end a grading run, whose report is a file.
func (l *Live) write(text string) {
	if text != "" {
		_, _ = io.WriteString(l.w, text)
	}
}
