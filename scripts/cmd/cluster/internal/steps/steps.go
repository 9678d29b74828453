// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package steps shows the progress of a task with several steps.
package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/grading/report/terminal"
)

// nameWidth fits "cert-manager", and secondsWidth fits "1234.5 s".
const nameWidth, secondsWidth = 13, 8

// ErrInterrupted is returned for a step that the user interrupted.
var ErrInterrupted = errors.New("interrupted: the same command continues where it stopped")

// ErrNothing is returned by a step that found nothing to do, and that needs no line in the output.
var ErrNothing = errors.New("nothing to do")

// Step is one step of a task.
type Step struct {
	Name string
	// Limit is the time limit of the step. Zero: it takes as long as it needs, with progress shown.
	Limit time.Duration
	// Do runs the step. It calls report with its current action. The text that it returns is shown when the step is done.
	Do func(ctx context.Context, report func(string)) (string, error)
}

// Steps shows the steps of a task while they run, each with its duration when it ends. On a terminal the last line
// shows the current action. Elsewhere the lines are plain and begin with a word to grep for: step, note, FAIL.
type Steps struct {
	out    io.Writer
	screen terminal.Screen
	faint  lipgloss.Style
	good   lipgloss.Style
	bad    lipgloss.Style

	mutex   sync.Mutex
	current string
	message string
	began   time.Time
	printed time.Time
}

// New returns Steps that are shown on a screen.
func New(out io.Writer, screen terminal.Screen) *Steps {
	renderer := lipgloss.NewRenderer(out, termenv.WithProfile(termenv.Ascii))
	if screen.Color {
		renderer = lipgloss.NewRenderer(out, termenv.WithProfile(termenv.ANSI))
	}
	return &Steps{
		out: out, screen: screen, faint: renderer.NewStyle().Faint(true),
		good: renderer.NewStyle().Foreground(lipgloss.Color("2")), bad: renderer.NewStyle().Foreground(lipgloss.Color("1")),
	}
}

// Run runs the steps one after the other, until one fails.
func (s *Steps) Run(ctx context.Context, all []Step) error {
	for _, one := range all {
		if err := s.do(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return nil
}

func (s *Steps) do(ctx context.Context, one Step) error {
	limited := ctx
	if one.Limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, one.Limit, fmt.Errorf("timed out after %s", one.Limit))
		defer cancel()
	}
	s.begin(one.Name)
	still := func() {}
	if s.screen.Interactive {
		still = progress.Spin(s.screen.Unicode, s.draw)
	}
	detail, err := one.Do(limited, s.report)
	still()
	if errors.Is(err, ErrNothing) {
		s.clear()
		return nil
	}
	if err != nil && ctx.Err() != nil {
		err = ErrInterrupted
	}
	s.end(detail, err)
	return err
}

func (s *Steps) begin(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.current, s.message, s.began, s.printed = name, "", time.Now(), time.Now()
}

// report shows what the current step is doing.
func (s *Steps) report(what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if what = strings.Join(strings.Fields(what), " "); what == s.message {
		return
	}
	s.message = what
	if !s.screen.Interactive && time.Since(s.printed) >= progress.QuietTime {
		s.printed = time.Now()
		s.write("step %s: %s\n", s.current, what)
	}
}

// Note prints a line that is not a step.
func (s *Steps) Note(text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.screen.Interactive {
		s.write("note %s\n", text)
		return
	}
	s.write("%s  %s\n", progress.ClearLine, s.faint.Render("! "+text))
}

func (s *Steps) end(detail string, err error) {
	if err != nil {
		detail = ""
	}
	s.line("step", "FAIL", s.current, time.Since(s.began), detail, err == nil)
}

func (s *Steps) clear() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.screen.Interactive {
		s.write("%s", progress.ClearLine)
	}
}

// Result prints the line of a step that was done elsewhere.
func (s *Steps) Result(name string, took time.Duration, detail string, passed bool) {
	s.line("ok  ", "FAIL", name, took, detail, passed)
}

// line prints the final line of a step.
func (s *Steps) line(good, bad, name string, took time.Duration, detail string, passed bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	seconds := fmt.Sprintf("%.1f s", took.Seconds())
	if !s.screen.Interactive {
		word := good
		if !passed {
			word = bad
		}
		s.write("%s\n",
			strings.TrimRight(fmt.Sprintf("%s %-*s %*s  %s", word, nameWidth, name, secondsWidth, seconds, detail), " "))
		return
	}
	mark, ascii, style := "✓", "+", s.good
	if !passed {
		mark, ascii, style = "✗", "x", s.bad
	}
	if !s.screen.Unicode {
		mark = ascii
	}
	s.write("%s  %s %-*s %*s  %s\n",
		progress.ClearLine, style.Render(mark), nameWidth, name, secondsWidth, seconds, s.faint.Render(s.cut(detail)))
}

// draw draws the last line again.
func (s *Steps) draw(frame rune) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	took := fmt.Sprintf("%.0f s", time.Since(s.began).Seconds())
	s.write("%s  %c %-*s %*s  %s",
		progress.ClearLine, frame, nameWidth, s.current, secondsWidth, took, s.faint.Render(s.cut(s.message)))
}

// cut shortens a line that would wrap, because a wrapped line could not be redrawn.
func (s *Steps) cut(text string) string {
	room := s.screen.Width - nameWidth - secondsWidth - 8
	if runes := []rune(text); room > 0 && len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}

func (s *Steps) write(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }
