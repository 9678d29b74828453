// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"context"
	"errors"
	"fmt"
	"os"

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

// Watch grades a work, or the named part of its lab, until the context ends, or saves can no longer be detected. A
// failed run does not end it. While the student types, the next cluster starts or waits. A save during a run ends the
// run, because its verdict would describe an older version. Without a part, a lab that is built in parts is graded one
// part after the other.
func Watch(ctx context.Context, watched *Work, part string, settings Options) error {
	settings.KnownTests = true
	t := target{work: watched, part: part}
	w, err := t.next()
	if err != nil {
		return err
	}
	if _, err := w.prepare(ctx, settings); err != nil {
		return err
	}
	saves, err := filewatch.Watch(ctx, w.Dir, filewatch.SaveWindow)
	if err != nil {
		return err
	}
	start := func(ctx context.Context) (*embedded.Cluster, error) { return embedded.Start(ctx, w.ControlPlane) }
	on := own.Start
	switch {
	case w.Placement.OnNode(w.Lab):
		start = func(ctx context.Context) (*embedded.Cluster, error) {
			return node.Starter(w.Checkout, w.Lab)(ctx, func(string) {})
		}
		on = func(start func(context.Context) (*embedded.Cluster, error)) stage.Start {
			return node.Start(func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) { return start(ctx) },
				images.StoreOf(w.Root), w.ControlPlane.Path)
		}
	case w.Placement.WithNode(w.Lab):
		start = func(ctx context.Context) (*embedded.Cluster, error) {
			return node.StarterForProcesses(w.Checkout, w.Lab)(ctx, func(string) {})
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
		next, err := t.next()
		if err == nil {
			w = next
			settings.Start = on(warm.Take)
			verdict, saved, err = w.gradeUntilSaved(ctx, settings, saves)
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
		if verdict != nil && t.continues(w, verdict) {
			fmt.Fprintf(settings.Out, "\nPart %s has full marks: continuing.\n", w.Lab.Part)
			continue
		}
		fmt.Fprintf(settings.Out, "\nWatching %s: save a file to grade again, Ctrl-C to end.\n", cli.Relative(w.Dir))
		select {
		case save := <-saves:
			if save.Err != nil {
				return &blindError{save.Err}
			}
			fmt.Fprintf(settings.Out, "%s was saved: grading again\n", save.File)
		case <-ctx.Done():
			return cli.ErrReported
		}
	}
}

// gradeUntilSaved grades once. It returns no verdict if a file was saved before the end, or if the run failed.
func (w *Work) gradeUntilSaved(
	ctx context.Context, settings Options, saves <-chan filewatch.Save,
) (verdict *report.Report, saved bool, err error) {
	if progress.IsTerminal(settings.Out) {
		fmt.Fprint(settings.Out, "\x1b[H\x1b[2J\x1b[3J")
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		var err error
		settings.First = w.ToFix()
		verdict, err = w.Grade(run, settings)
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
		fmt.Fprintf(settings.Out, "\n%s was saved: grading again\n", save.File)
		return nil, true, nil
	}
}

// ToFix returns the ID of the check that the last verdict explained. A student who has changed a file wants to know
// whether this check passes now. It is empty if no check failed, if this run does not decide the check, or if there is
// no verdict yet.
func (w *Work) ToFix() string {
	last, err := w.LastVerdict()
	if err != nil {
		return "" // without an earlier verdict the checks run in the order of the list
	}
	failed := last.Explained()
	if failed == nil {
		return ""
	}
	if _, err := w.Lab.Check(failed.ID); err != nil { // --step and --without-node leave checks out
		return ""
	}
	return failed.ID
}

// blindError reports why saves can no longer be detected.
type blindError struct{ error }

func (e *blindError) Unwrap() error { return e.error }

// errSaved ends a run during which a file was saved.
var errSaved = errors.New("a file was saved")
