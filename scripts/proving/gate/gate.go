// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/stopwatch"
)

// Step is one command of the gate.
type Step struct {
	// Name is the name in the table. Args are the arguments of the lab command.
	Name string
	Args []string
	// Late are the arguments in a gate that is late. LeavesOut describes what they leave out. Nil: nothing can be left
	// out.
	Late      []string
	LeavesOut string
}

const (
	// tailLines is how many of a failed step's last lines are repeated at the end.
	tailLines = 40
	// late is the time after which a gate leaves out what it can.
	late = 40 * time.Minute
	// tolerated is the maximum number of flaky tests and grades in a gate.
	tolerated = 3
)

// Options configure a gate.
type Options struct {
	// Root is the folder of the checkout, in which the steps run. Program is the lab command.
	Root, Program string
	Steps         []Step
	// Began is when the gate began. A caller that has done some work before it passes an earlier time. Default: now.
	Began time.Time
	// Out gets the output of the steps and the summary.
	Out io.Writer
	// Notes returns sentences for the last lines of a gate that passed, such as which proofs are old. Nil: none.
	Notes func(context.Context) ([]string, error)
}

// Run runs the steps until one fails. The error names that step. Everything else was printed. complete reports that
// nothing was left out.
func Run(ctx context.Context, options Options) (complete bool, err error) {
	if options.Began.IsZero() {
		options.Began = time.Now()
	}
	fmt.Fprintf(options.Out, "The machine: %s.\n", machine(options.Root))
	if err := forgetFlaky(options.Root); err != nil {
		return false, err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	var rows, leftOut []string
	for _, step := range options.Steps {
		if step.Late != nil && time.Since(options.Began) > late {
			step.Args = step.Late
			leftOut = append(leftOut,
				fmt.Sprintf("SKIPPED: %s, because the gate had run for more than %s.", step.LeavesOut, late))
		}
		fmt.Fprintf(options.Out, "\n=== %s\n", step.Name)
		watch, end := stopwatch.Start(), &tail{to: options.Out}
		err := run(ctx, scope, options, step, end)
		elapsed := watch.Elapsed()
		rows = append(rows, fmt.Sprintf("| %-40s | %5.0f | %5.0f | %3.0f %% |\n",
			step.Name, elapsed.Wall.Seconds(), elapsed.CPU.Seconds(), 100*elapsed.Idle))
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			table(options.Out, rows)
			fmt.Fprintf(options.Out, "\nThe gate failed at the step %q (lab %s). Its last lines:\n\n%s\n",
				step.Name, strings.Join(step.Args, " "), end)
			return false, fmt.Errorf("the step %q failed: %w", step.Name, err)
		}
	}
	table(options.Out, rows)
	for _, line := range leftOut {
		fmt.Fprintln(options.Out, line)
	}
	if options.Notes != nil {
		notes, err := options.Notes(ctx)
		if err != nil { // this error is unrelated to the change
			notes = append(notes, fmt.Sprintf("Could not determine what is proven: %v", err))
		}
		for _, note := range notes {
			fmt.Fprintln(options.Out, note)
		}
	}
	return len(leftOut) == 0, judgeFlaky(options.Root, options.Out)
}

// run runs the command of a step.
func run(ctx context.Context, scope *process.Scope, options Options, step Step, out io.Writer) error {
	p, err := scope.Start(process.Spec{
		Name: step.Name, Path: options.Program, Args: step.Args, Dir: options.Root,
		Env: os.Environ(), Stdout: out, Stderr: out,
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

func table(out io.Writer, rows []string) {
	fmt.Fprintf(out, "\n| %-40s | %5s | %5s | %5s |\n|---|---|---|---|\n%s",
		"step", "s", "CPU s", "idle", strings.Join(rows, ""))
}

// tail passes all output on and keeps the last lines.
type tail struct {
	to    io.Writer
	lines []string
	line  strings.Builder
}

func (t *tail) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		t.line.WriteString(text)
		if strings.HasSuffix(text, "\n") {
			if t.lines = append(t.lines, t.line.String()); len(t.lines) > tailLines {
				t.lines = t.lines[1:]
			}
			t.line.Reset()
		}
	}
	return t.to.Write(p)
}

func (t *tail) String() string { return strings.Join(t.lines, "") + t.line.String() }
