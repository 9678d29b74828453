// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// boardAt returns a board with one slot in use, and a function that sets the number of seconds that have passed.
func boardAt(screen terminal.Screen) (*Board, *strings.Builder, func(seconds int)) {
	var out strings.Builder
	b := NewBoard(&out, screen)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	b.now = func() time.Time { return now }
	b.total, b.known, b.rows, b.began = 20, 2, make([]*row, 2), now
	return b, &out, func(seconds int) { now = now.Add(time.Duration(seconds) * time.Second) }
}

func TestBoardWithoutTerminalWritesLines(t *testing.T) {
	t.Parallel()
	b, out, wait := boardAt(terminal.Screen{})
	first := run{Job: Job{Key: Key{Lab: "02-reconciler"}, Student: "ada", Others: 1}, try: 1}
	view := b.view(1, first)
	view.StepStarted("build")
	view.StepStarted("start a cluster")
	view.StepDone("build", time.Second, "")
	wait(10)
	b.tick()
	view.StepDone("start a cluster", time.Second, "")
	view.CheckStarted(report.Check{ID: "counts"})
	b.ended(ended{run: first, slot: 1})
	b.decided(ended{run: first, slot: 1, report: &report.Report{Outcome: report.Graded}})
	bad := run{Job: Job{Key: Key{Lab: "02-reconciler"}, Student: "eve\x1b[2J"}, try: 3}
	b.decided(ended{run: bad, report: &report.Report{Outcome: report.Error, Reason: "this machine was too busy"}})
	wait(10)
	b.tick()
	want := "2 of 20 graded (2 before); now: ada (+1) 02-reconciler (start a cluster)\n" +
		"no grade: eve, 02-reconciler: this machine was too busy\n" +
		"4 of 20 graded (2 before, 1 without a grade), 6.0 per minute, about 3 min left\n"
	if out.String() != want {
		t.Errorf("the board wrote\n%s\nwant\n%s", out, want)
	}
}

func TestBoardOnTerminalDrawsTable(t *testing.T) {
	t.Parallel()
	b, out, wait := boardAt(terminal.Screen{Interactive: true, Width: 60})
	view := b.view(0, run{Job: Job{Key: Key{Lab: "02-reconciler"}, Student: "a-student-with-a-very-long-name-é"}, try: 2})
	wait(3)
	b.tick()
	view.CheckStarted(report.Check{ID: strings.Repeat("long-", 30)})
	b.tick()
	b.end()
	for line := range strings.Lines(out.String()) {
		if _, text, moved := strings.Cut(line, "\x1b[J"); moved {
			line = text
		}
		if len(line) > 60 {
			t.Errorf("a line has %d columns: %q", len(line), line)
		}
	}
	if text := out.String(); !strings.Contains(text, "try 2") || !strings.Contains(text, "a-student-with-a-very-l-") ||
		strings.Count(text, "\x1b[3A") != 2 || !strings.HasSuffix(text, "\x1b[3A\r\x1b[J") {
		t.Errorf("the board wrote %q", text)
	}
}

func TestNilBoard(t *testing.T) {
	t.Parallel()
	var b *Board
	b.start(1, 0, 1)
	b.fetching(0, 1)
	b.fetched()
	b.view(0, run{}).StepStarted("x")
	b.ended(ended{})
	b.decided(ended{})
	b.end()
}
