// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package progress shows the progress of long work on a terminal or in a log: how much is done, which of several works
// it is, and how long they will take. It imports only the standard library, because it is part of the program that
// builds all others. It does none of the work.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// report is how often a log gets a line, and patience is when it gets the first one.
const (
	report   = 15 * time.Second
	patience = 2 * time.Second
)

// Bar is a line that shows the current work and its progress. All methods are safe for concurrent use.
type Bar struct {
	out      io.Writer
	terminal bool
	what     string
	started  time.Time
	still    func()    // ends the drawing
	estimate *estimate // nil if nothing is known

	mutex       sync.Mutex
	detail      string
	done, total int
	reported    time.Time
}

// IsTerminal reports whether the file is a terminal that a person watches and that can redraw a line.
func IsTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Start shows a bar. A log, which can't redraw a line, gets its first line after two seconds. For shorter work it has
// only the line of Done or Fail. The caller must call one of them once.
func Start(out *os.File, what string) *Bar { return start(out, what, nil) }

func start(out *os.File, what string, estimate *estimate) *Bar {
	b := &Bar{out: out, terminal: IsTerminal(out), what: what, started: time.Now(), estimate: estimate}
	if estimate != nil {
		estimate.started = b.started
	}
	b.reported = b.started.Add(patience - report)
	if b.terminal {
		b.still = Spin(true, b.draw)
	} else { // On some virtual machines, waking up ten times a second takes a sixth of a processor from the compiler.
		b.still = every(time.Second, func() { b.draw(' ') })
	}
	return b
}

// Set reports the progress in units of the work, which detail names ("packages"). A total of 0 means that it is
// unknown.
func (b *Bar) Set(detail string, done, total int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.detail, b.done, b.total = detail, done, total
	if b.estimate != nil {
		b.estimate.note(detail, done, total, time.Now())
	}
}

// Done ends the bar with a line that contains how long the work took.
func (b *Bar) Done() { b.end("done") }

// Fail ends the bar. The caller prints the error.
func (b *Bar) Fail() { b.end("failed") }

func (b *Bar) end(outcome string) {
	b.still()
	if b.terminal {
		fmt.Fprint(b.out, ClearLine)
	}
	fmt.Fprintf(b.out, "%s: %s in %s\n", b.what, outcome, time.Since(b.started).Round(100*time.Millisecond))
}

func (b *Bar) draw(picture rune) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	elapsed := time.Since(b.started).Round(time.Second)
	if b.terminal {
		fmt.Fprintf(b.out, "%s%c %s %s%s (%s%s)", ClearLine, picture, b.what, b.gauge(), b.count(), elapsed, b.left())
		return
	}
	if time.Since(b.reported) >= report {
		b.reported = time.Now()
		fmt.Fprintf(b.out, "%s:%s (%s%s)\n", b.what, b.count(), elapsed, b.left())
	}
}

// left returns how long all of it will still take, if that is known.
func (b *Bar) left() string {
	if b.estimate == nil {
		return ""
	}
	return ", about " + approximate(b.estimate.left(b.done, b.total, time.Now())) + " left"
}

// Left returns how long the work will still take, such as "40 s", based on the time that a part of it took. It returns
// an empty string as long as that would be a guess.
func Left(done, total int, elapsed time.Duration) string {
	const enough = 5 * time.Second
	if done <= 0 || total <= 0 || elapsed < enough {
		return ""
	}
	return approximate(scale(elapsed, ratio(total-done, done)))
}

func (b *Bar) count() string {
	switch {
	case b.detail == "", b.done == 0 && b.total == 0:
		return ""
	case b.total == 0:
		return fmt.Sprintf(" %d %s", b.done, b.detail)
	default:
		return fmt.Sprintf(" %d of %d %s", b.done, b.total, b.detail)
	}
}

func (b *Bar) gauge() string {
	if b.total == 0 {
		return ""
	}
	const width = 24
	filled := min(width, width*b.done/b.total)
	return "[" + strings.Repeat("█", filled) + strings.Repeat("·", width-filled) + "]"
}
