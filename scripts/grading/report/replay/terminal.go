// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/grading/report"
)

// Play shows the steps of a check on a terminal. The reader is asked for each step that has choices. A number answers,
// an empty line shows the step without an answer, and q or the end of the input ends the questions. Without in, it
// shows all steps and asks nothing. When the context ends, it returns the cause. The report must be sanitized.
func Play(ctx context.Context, out io.Writer, in io.Reader, r *report.Report, check *report.Check) error {
	p := player{out: out, report: r}
	if in != nil {
		p.in = lines(in)
	}
	p.print("Lab %s, %s: %s (%s)\n%s\n", r.Number(), r.Title, check.ID, check.Status, check.Title)
	if p.in != nil {
		p.print("Type a number to answer, Enter to show the step, or q to show all remaining steps.\n")
	}
	p.print("\n")
	for _, step := range Steps(r, check) {
		if step.Choices != nil && p.in != nil {
			p.ask(ctx, step)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.show(step)
	}
	p.print("\n")
	if p.asked > 0 {
		p.print("You predicted %d of %s.\n", p.right, english.Plural(p.asked, "step", ""))
	}
	switch check.Status {
	case report.Failed:
		p.print("The check failed.\n  expected: %s\n  observed: %s\n", check.Expected, check.Observed)
	case report.Passed:
		p.print("The check passed.\n")
	}
	if check.Lecture != "" {
		p.print("It is explained in %s.\n", check.Lecture)
	}
	return p.err
}

// player shows steps and counts answers.
type player struct {
	out          io.Writer
	in           <-chan string // nil if no more questions are asked
	report       *report.Report
	asked, right int
	err          error
}

func (p *player) print(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// ask asks what the operator does next, until there is an answer.
func (p *player) ask(ctx context.Context, step Step) {
	p.print("  What does the operator do next?\n")
	for i, choice := range step.Choices {
		p.print("    %d  %s\n", i+1, choice)
	}
	for p.in != nil {
		p.print("  > ")
		var line string
		open := false
		select {
		case line, open = <-p.in:
		case <-ctx.Done():
		}
		if !open {
			p.in = nil
			p.print("\n")
			return
		}
		answer := strings.ToLower(strings.TrimSpace(line))
		number, err := strconv.Atoi(answer)
		switch {
		case answer == "":
			return
		case answer == "q":
			p.in = nil
		case err != nil || number < 1 || number > len(step.Choices):
			p.print("  Type a number from 1 to %d, Enter or q.\n", len(step.Choices))
			continue
		case step.Choices[number-1] == step.Request:
			p.asked, p.right = p.asked+1, p.right+1
			p.print("  Right.\n")
			return
		default:
			p.asked++
			p.print("  No: %s.\n", step.Request)
			return
		}
	}
}

// lines reads lines until the input ends. A terminal can't be read with a time limit, so the last read may never
// return.
func lines(in io.Reader) <-chan string {
	all := make(chan string)
	go func() {
		defer close(all)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			all <- scanner.Text()
		}
	}()
	return all
}

// show prints a step: its time, what happened, and the answer.
func (p *player) show(step Step) {
	if len(step.Moments) == 0 {
		p.print("%8.3f s  %s\n", step.At, step.What(p.report))
		return
	}
	first := p.report.Timeline[step.Moments[0]]
	p.print("%8.3f s  %s%s\n", step.At, step.What(p.report), answer(first))
	if first.Fault != "" {
		p.print("            fault %s: %s\n", first.Fault, FaultText(first.Fault))
	}
}

// answer describes the answer to a request.
func answer(moment report.Moment) string {
	switch {
	case requestOf(moment) == "":
		return ""
	case moment.Code == 0:
		return " → no answer"
	}
	return fmt.Sprintf(" → %d", moment.Code)
}
