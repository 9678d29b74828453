// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// frameTime is the time between two redraws of the table.
const frameTime = 200 * time.Millisecond

// Board shows the progress of grading a class: on a terminal as a table with a line for each slot, elsewhere as one
// line every ten seconds. It ignores write errors. All methods are safe for concurrent use, and a nil Board shows
// nothing.
type Board struct {
	out    io.Writer
	screen terminal.Screen
	now    func() time.Time

	mutex                sync.Mutex
	total, known, graded int
	without              int // submissions that have no grade
	fetches              string
	began                time.Time
	rows                 []*row // by slot. Nil: the slot is free
	drawn                int    // number of the table's lines on the screen
	stop                 func()
}

// row is the run in a slot.
type row struct {
	student, lab string
	began        time.Time
	doing        []string // steps and checks, in the order in which they began
	note         string
}

// NewBoard returns a board that writes to out.
func NewBoard(out io.Writer, screen terminal.Screen) *Board {
	return &Board{out: out, screen: screen, now: time.Now}
}

func (b *Board) start(total, known, slots int) {
	if b == nil {
		return
	}
	b.mutex.Lock()
	b.total, b.known, b.rows, b.began = total, known, make([]*row, slots), b.now()
	b.mutex.Unlock()
	interval := progress.QuietTime
	if b.screen.Interactive {
		interval = frameTime
	}
	if known < total {
		b.stop = every(interval, b.tick)
	}
}

// every calls do after each interval until the returned function is called.
func every(interval time.Duration, do func()) (end func()) {
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				do()
			}
		}
	})
	return func() {
		close(stop)
		ticking.Wait()
	}
}

func (b *Board) end() {
	if b == nil {
		return
	}
	if b.stop != nil {
		b.stop()
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.write(b.erase())
	b.rows = nil
}

func (b *Board) fetching(done, total int) {
	if b == nil {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fetches = fmt.Sprintf("looking for modules to download: %d of %d submissions", done, total)
}

// fetched starts the clock by which the rate is measured.
func (b *Board) fetched() {
	if b == nil {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fetches, b.began = "", b.now()
}

func (b *Board) ended(e ended) {
	if b == nil {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.rows[e.slot] = nil
}

// decided counts a submission that is not graded again. If it has no grade, its line stays on the screen.
func (b *Board) decided(e ended) {
	if b == nil {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.graded++
	if !e.report.Inconclusive() {
		return
	}
	b.without++
	if e.report.Outcome == report.Error {
		b.write(b.erase() +
			report.OneLine(fmt.Sprintf("no grade: %s, %s: %s", student(e.Job), e.Lab, e.report.Reason)) + "\n" + b.draw())
	}
}

func student(j Job) string {
	if j.Others > 0 {
		return fmt.Sprintf("%s (+%d)", j.Student, j.Others)
	}
	return j.Student
}

// tick redraws the table, or writes the next line.
func (b *Board) tick() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.screen.Interactive {
		b.write(b.erase() + b.draw())
		return
	}
	text := b.summary()
	var running []string
	for _, r := range b.rows {
		if r != nil {
			running = append(running, strings.TrimSuffix(fmt.Sprintf("%s %s (%s)", r.student, r.lab, r.now()), " ()"))
		}
	}
	if len(running) > 0 {
		text += "; now: " + strings.Join(running, ", ")
	}
	b.write(text + "\n")
}

// summary returns the progress of the class.
func (b *Board) summary() string {
	if b.fetches != "" {
		return b.fetches
	}
	done := b.known + b.graded
	text := fmt.Sprintf("%d of %d graded", done, b.total)
	var remarks []string
	if b.known > 0 {
		remarks = append(remarks, fmt.Sprintf("%d before", b.known))
	}
	if b.without > 0 {
		remarks = append(remarks, fmt.Sprintf("%d without a grade", b.without))
	}
	if len(remarks) > 0 {
		text += " (" + strings.Join(remarks, ", ") + ")"
	}
	elapsed := b.now().Sub(b.began)
	if b.graded > 0 && elapsed > 0 {
		text += fmt.Sprintf(", %.1f per minute", float64(b.graded)/elapsed.Minutes())
	}
	if left := progress.Left(b.graded, b.total-b.known, elapsed); left != "" && done < b.total {
		text += ", about " + left + " left"
	}
	return text
}

func (b *Board) erase() string {
	if b.drawn == 0 {
		return ""
	}
	up := b.drawn
	b.drawn = 0
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", up)
}

// draw returns the table. No line fills the width, because some terminals then begin a new line.
func (b *Board) draw() string {
	if !b.screen.Interactive || b.rows == nil {
		return ""
	}
	lines := []string{b.summary()}
	for i, r := range b.rows {
		if r == nil {
			lines = append(lines, fmt.Sprintf("%3d  –", i+1))
			continue
		}
		seconds := int(b.now().Sub(r.began).Seconds())
		lines = append(lines,
			fmt.Sprintf("%3d  %-24s %-15s %4d s  %s", i+1, cut(r.student, 24), cut(r.lab, 15), seconds, r.now()))
	}
	var text strings.Builder
	for _, line := range lines {
		line = cut(line, max(1, b.screen.Width-1))
		if !b.screen.Unicode {
			line = strings.Map(ascii, line)
		}
		text.WriteString(line + "\n")
	}
	b.drawn = len(lines)
	return text.String()
}

func ascii(r rune) rune {
	switch {
	case r < 0x80:
		return r
	case r == '–' || r == '…':
		return '-'
	}
	return '?'
}

// cut shortens a text to a number of columns.
func cut(text string, width int) string {
	letters := []rune(text)
	if len(letters) <= width {
		return text
	}
	return string(letters[:max(0, width-1)]) + "…"
}

// now returns the names of the running steps and checks.
func (r *row) now() string {
	if len(r.doing) == 0 {
		return r.note
	}
	return strings.Join(r.doing, ", ")
}

func (b *Board) write(text string) {
	if text != "" {
		_, _ = io.WriteString(b.out, text) // a closed pipe must not end a class
	}
}

// view returns the View that shows a run in a slot.
func (b *Board) view(slot int, r run) View {
	if b == nil {
		return silent{}
	}
	shown := &row{student: report.OneLine(student(r.Job)), lab: r.Lab, began: b.now()}
	if r.try > 1 {
		shown.note = fmt.Sprintf("try %d", r.try)
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.rows[slot] = shown
	return &slotView{board: b, row: shown}
}

type slotView struct {
	board *Board
	row   *row
}

func (v *slotView) start(name string) {
	v.board.mutex.Lock()
	defer v.board.mutex.Unlock()
	v.row.doing = append(v.row.doing, report.OneLine(name))
}

func (v *slotView) end(name string) {
	v.board.mutex.Lock()
	defer v.board.mutex.Unlock()
	if i := slices.Index(v.row.doing, report.OneLine(name)); i >= 0 {
		v.row.doing = slices.Delete(v.row.doing, i, i+1)
	}
}

func (v *slotView) StepStarted(name string)                         { v.start(name) }
func (v *slotView) StepProgress(string, string)                     {}
func (v *slotView) StepDone(name string, _ time.Duration, _ string) { v.end(name) }
func (v *slotView) CheckStarted(check report.Check)                 { v.start(check.ID) }
func (v *slotView) CheckDone(check report.Check)                    { v.end(check.ID) }

type silent struct{}

func (silent) StepStarted(string)                     {}
func (silent) StepProgress(string, string)            {}
func (silent) StepDone(string, time.Duration, string) {}
func (silent) CheckStarted(report.Check)              {}
func (silent) CheckDone(report.Check)                 {}
