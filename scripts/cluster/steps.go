// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

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

	"lva.io/operators/scripts/report/terminal"
)

const (
	// frameTime is how long a picture of the spinner stands; quietTime how long a step's progress stays unsaid where every
	// word is a new line.
	frameTime = 100 * time.Millisecond
	quietTime = 10 * time.Second
	clearLine = "\r\x1b[2K"
	// nameWidth holds "cert-manager", secondsWidth "1234.5 s".
	nameWidth, secondsWidth = 13, 8
)

// errInterrupted is why a step ended that a person ended.
var errInterrupted = errors.New("interrupted: the same command goes on where it was")

// errNothing is what a step returns that found nothing to do, and of which nothing need be said.
var errNothing = errors.New("nothing to do")

// step is a part of a longer piece of work.
type step struct {
	name string
	// limit is how long it may take. None: as long as it needs, with progress shown.
	limit time.Duration
	// do does it. What it is doing goes to say; what it returns is said of it when it is done.
	do func(ctx context.Context, say func(string)) (string, error)
}

// steps shows the steps of a piece of work while they are done, each with its time when it ends: on a terminal with a last line
// that says what is going on; elsewhere with plain lines that begin with a word to grep for: step, note, FAIL.
type steps struct {
	out    io.Writer
	screen terminal.Screen
	faint  lipgloss.Style
	good   lipgloss.Style
	bad    lipgloss.Style

	mutex   sync.Mutex
	current string
	saying  string
	began   time.Time
	told    time.Time
	frame   int
}

func newSteps(out io.Writer, screen terminal.Screen) *steps {
	renderer := lipgloss.NewRenderer(out, termenv.WithProfile(termenv.Ascii))
	if screen.Color {
		renderer = lipgloss.NewRenderer(out, termenv.WithProfile(termenv.ANSI))
	}
	return &steps{
		out: out, screen: screen, faint: renderer.NewStyle().Faint(true),
		good: renderer.NewStyle().Foreground(lipgloss.Color("2")), bad: renderer.NewStyle().Foreground(lipgloss.Color("1")),
	}
}

// run does the steps one after the other, until one fails.
func (s *steps) run(ctx context.Context, all []step) error {
	for _, one := range all {
		if err := s.do(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

func (s *steps) do(ctx context.Context, one step) error {
	limited := ctx
	if one.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, one.limit, fmt.Errorf("it was not done within %s", one.limit))
		defer cancel()
	}
	s.begin(one.name)
	stop := make(chan struct{})
	var animation sync.WaitGroup
	if s.screen.Interactive {
		animation.Go(func() { s.animate(stop) })
	}
	detail, err := one.do(limited, s.say)
	close(stop)
	animation.Wait()
	if errors.Is(err, errNothing) {
		s.clear()
		return nil
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	s.end(detail, err)
	return err
}

func (s *steps) begin(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.current, s.saying, s.began, s.told = name, "", time.Now(), time.Now()
}

// say tells what the current step is doing.
func (s *steps) say(what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if what = strings.Join(strings.Fields(what), " "); what == s.saying {
		return
	}
	s.saying = what
	if !s.screen.Interactive && time.Since(s.told) >= quietTime {
		s.told = time.Now()
		s.write("step %s: %s\n", s.current, what)
	}
}

// note is a line that is no step.
func (s *steps) note(text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.screen.Interactive {
		s.write("note %s\n", text)
		return
	}
	s.write("%s  %s\n", clearLine, s.faint.Render("! "+text))
}

func (s *steps) end(detail string, err error) {
	if err != nil {
		detail = ""
	}
	s.line("step", "FAIL", s.current, time.Since(s.began), detail, err == nil)
}

func (s *steps) clear() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.screen.Interactive {
		s.write("%s", clearLine)
	}
}

// result is the line of something that was done elsewhere.
func (s *steps) result(name string, took time.Duration, detail string, passed bool) {
	s.line("ok  ", "FAIL", name, took, detail, passed)
}

// line is what is left of something that has ended.
func (s *steps) line(good, bad, name string, took time.Duration, detail string, passed bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	seconds := fmt.Sprintf("%.1f s", took.Seconds())
	if !s.screen.Interactive {
		word := good
		if !passed {
			word = bad
		}
		s.write("%s\n", strings.TrimRight(fmt.Sprintf("%s %-*s %*s  %s", word, nameWidth, name, secondsWidth, seconds, detail), " "))
		return
	}
	mark, ascii, style := "✓", "+", s.good
	if !passed {
		mark, ascii, style = "✗", "x", s.bad
	}
	if !s.screen.Unicode {
		mark = ascii
	}
	s.write("%s  %s %-*s %*s  %s\n", clearLine, style.Render(mark), nameWidth, name, secondsWidth, seconds, s.faint.Render(s.cut(detail)))
}

func (s *steps) animate(stop chan struct{}) {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	if !s.screen.Unicode {
		frames = []rune(`|/-\`)
	}
	ticker := time.NewTicker(frameTime)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			s.mutex.Lock()
			s.frame++
			took := fmt.Sprintf("%.0f s", time.Since(s.began).Seconds())
			s.write("%s  %c %-*s %*s  %s", clearLine, frames[s.frame%len(frames)], nameWidth, s.current, secondsWidth, took, s.faint.Render(s.cut(s.saying)))
			s.mutex.Unlock()
		}
	}
}

// cut keeps a line from breaking, which could not be written again.
func (s *steps) cut(text string) string {
	room := s.screen.Width - nameWidth - secondsWidth - 8
	if runes := []rune(text); room > 0 && len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}

func (s *steps) write(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }
