// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/filewatch"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
)

func watchCommand() *cobra.Command {
	var flags choiceFlags
	var part string
	command := &cobra.Command{
		Use: "watch N", GroupID: groupStudents,
		Short: "Grade a lab again each time one of its files is saved", Args: exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			return watch(command.Context(), watchTarget{lab: chosen, only: part})
		},
	}
	flags.register(command)
	command.Flags().StringVar(&part, "part", "", partUsage)
	return command
}

// watch grades until the context ends, or saves can no longer be detected. A failed run does not end it. While the
// student types, the next cluster starts or waits. A save during a run ends the run, because its verdict would describe
// an older version.
func watch(ctx context.Context, s watchTarget) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	if _, err := tools(ctx, c); err != nil {
		return err
	}
	saves, err := filewatch.Watch(ctx, c.Dir, filewatch.SaveWindow)
	if err != nil {
		return err
	}
	start := func(ctx context.Context) (*embedded.Cluster, error) { return embedded.Start(ctx, c.ControlPlane) }
	on := own.Start
	switch {
	case c.placement.OnNode(c.Lab):
		start = func(ctx context.Context) (*embedded.Cluster, error) {
			return node.Starter(c.Checkout, c.Lab)(ctx, func(string) {})
		}
		on = func(start func(context.Context) (*embedded.Cluster, error)) stage.Start {
			return node.Start(func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) { return start(ctx) },
				images.StoreOf(c.Root), c.ControlPlane.Path)
		}
	case c.placement.WithNode(c.Lab):
		start = func(ctx context.Context) (*embedded.Cluster, error) {
			return node.StarterForProcesses(c.Checkout, c.Lab)(ctx, func(string) {})
		}
		on = func(start func(context.Context) (*embedded.Cluster, error)) stage.Start {
			return node.StartForProcesses(func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) {
				return start(ctx)
			})
		}
	}
	warm := own.NewWarm(ctx, start)
	defer func() { warm.Close() }()
	for {
		var verdict *report.Report
		var saved bool
		chosen, err := s.next()
		if err == nil {
			c = chosen
			verdict, saved, err = gradeUntilSaved(ctx, c, on(warm.Take), saves)
		}
		switch blind, is := errors.AsType[*blindError](err); {
		case ctx.Err() != nil:
			return cli.ErrReported
		case is:
			return blind
		case err != nil && !errors.Is(err, cli.ErrReported):
			fmt.Fprintf(os.Stderr, "\nThis run has no verdict: %v\n", err)
		}
		warm.Close()
		warm = own.NewWarm(ctx, start)
		if saved {
			continue
		}
		if verdict != nil && s.follows(c, verdict) {
			fmt.Printf("\nPart %s has full marks: continuing.\n", c.Lab.Part)
			continue
		}
		fmt.Printf("\nWatching %s: save a file to grade again, Ctrl-C to end.\n", cli.Relative(c.Dir))
		select {
		case save := <-saves:
			if save.Err != nil {
				return &blindError{save.Err}
			}
			fmt.Printf("%s was saved: grading again\n", save.File)
		case <-ctx.Done():
			return cli.ErrReported
		}
	}
}

// gradeUntilSaved grades once. It returns no verdict if a file was saved before the end, or if the run failed.
func gradeUntilSaved(
	ctx context.Context, c *choice, start stage.Start, saves <-chan filewatch.Save,
) (verdict *report.Report, saved bool, err error) {
	if progress.IsTerminal(os.Stdout) {
		fmt.Print("\x1b[H\x1b[2J\x1b[3J")
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		var err error
		verdict, err = gradeOne(run, c, gradeOptions{start: start, first: c.toFix(), knownTests: true})
		done <- err
	}()
	select {
	case err := <-done:
		return verdict, false, err
	case save := <-saves:
		cancel(errSaved)
		<-done //nolint:errcheck // the error describes an older version
		if save.Err != nil {
			return nil, true, &blindError{save.Err}
		}
		fmt.Printf("\n%s was saved: grading again\n", save.File)
		return nil, true, nil
	}
}

// toFix returns the ID of the check that the last verdict explained. A student who has changed a file wants to know
// whether this check passes now. It is empty if no check failed, if this run does not decide the check, or if there is
// no verdict yet.
func (c *choice) toFix() string {
	last, err := c.last(verdictDir, report.JSONFile)
	if err != nil {
		return "" // without an earlier verdict the checks run in the order of the list
	}
	failed := last.Explained()
	if failed == nil {
		return ""
	}
	if _, err := c.Lab.Check(failed.ID); err != nil { // --step and --without-node leave checks out
		return ""
	}
	return failed.ID
}

// blindError reports why saves can no longer be detected.
type blindError struct{ error }

func (e *blindError) Unwrap() error { return e.error }

// errSaved ends a run during which a file was saved.
var errSaved = errors.New("a file was saved")
