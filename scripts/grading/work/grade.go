// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

const (
	operatorLogFile = "operator.log"
	// verdictDir, in a lab's folder of reports, holds the report of the last run that was not interrupted.
	verdictDir = "verdict"
)

// Options configure how submissions are graded or tortured. Fields without a comment are as in grade.Options.
type Options struct {
	// Fetch lets the go command download the modules of a submission outside of the checkout, too.
	Fetch   bool
	Seed    uint32
	Stories int
	Scenes  bool
	Start   stage.Start
	On      string
	First   string
	Sandbox grade.Sandbox
	// Gradescope is the file for Gradescope's results.json, or empty. Visibility is who can see its content.
	Gradescope, Visibility string
	// KnownTests reports that the student's own tests are not run. The results of an earlier run count, if the tests have
	// not changed.
	KnownTests bool
	// OwnTests returns what grades the student's own tests. It is called in labs in which they are worth points.
	OwnTests func(*Work, Options) OwnTests
	// NotStarted returns the steps of a lab that a submission has not started. See grade.Options.
	NotStarted func(root, lab, submission string) ([]int, error)
	// Out gets the progress and the verdict.
	Out *os.File
}

// OwnTests grades the student's own tests in one run. Package testgrade implements it.
type OwnTests interface {
	// Take takes the results of an earlier run out of the folder of the reports. It runs before any code of the
	// submission, which could write there.
	Take() error
	// Grade grades the tests, if the run was graded, and decides their check in its report. It runs after all other
	// checks.
	Grade(ctx context.Context, view grade.View, result *report.Report) error
}

// Grade grades the submission, shows the progress, and writes the reports.
func (w *Work) Grade(ctx context.Context, settings Options) (*report.Report, error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	options, err := w.prepare(ctx, settings)
	if err != nil {
		return nil, err
	}
	screen := w.Screen(w.ReportFile())
	screen.First = settings.First
	blank := w.blank(options)
	live := terminal.NewLive(settings.Out, blank, screen)
	options.View = live
	forGradescope := &resultsFile{View: live, file: settings.Gradescope, visibility: settings.Visibility, soFar: blank}
	if settings.Gradescope != "" {
		options.View = forGradescope
	}
	var ownTests OwnTests
	if w.Lab.OwnTests() != nil {
		ownTests = settings.OwnTests(w, settings)
		if err := ownTests.Take(); err != nil {
			live.Close()
			return nil, err
		}
	}
	result := grade.Run(ctx, options)
	if notice := w.uncontained(result.Environment.Containment); notice != "" {
		result.Notices = append(result.Notices, notice)
	}
	if ownTests != nil {
		err = ownTests.Grade(ctx, options.View, result)
	}
	live.Close()
	if errors.Is(context.Cause(ctx), errSaved) {
		// There is no verdict, since the folder has changed since the run began.
		return result, report.Remove(w.Out, formats.Files...)
	}
	if settings.Gradescope != "" {
		err = forGradescope.finish(result, err)
	}
	if err := w.settle(result, err); err != nil {
		return nil, err
	}
	if result.Outcome != report.Interrupted {
		if err := errors.Join(w.KeepBest(result), keepParts(w.Out, w.Lab, result)); err != nil {
			return nil, err
		}
	}
	return result, terminal.Verdict(settings.Out, result, screen)
}

// uncontained returns the notice for a run in which another person's submission was contained without namespaces. kept
// has the meaning of report.Environment.Containment. It is empty for a run that started nothing on this machine.
func (w *Work) uncontained(kept string) string {
	if !w.Foreign || kept == "" || kept == string(process.Namespaces) {
		return ""
	}
	return "This machine gave the submission no namespaces of its own, " +
		"so processes that it started may still be running. " +
		"Grade submissions of strangers on a machine with user namespaces."
}

// ReportMissing writes the report of a run that found nothing to build, for the given reason.
func (w *Work) ReportMissing(reason error) error {
	if err := w.begin(); err != nil {
		return err
	}
	result := w.blank(grade.Options{Lab: w.Lab, Dir: w.Dir})
	result.Outcome, result.Reason = report.NotBuilt, reason.Error()
	return w.settle(result, nil)
}

// blank returns the report of a run that has just started.
func (w *Work) blank(options grade.Options) *report.Report {
	r := grade.Blank(options, time.Now())
	grade.PlanOwnTests(r, w.Lab)
	return r
}

// begin replaces the files of the last run, so that an old grade is never taken for the new one, however this run ends.
func (w *Work) begin() error {
	// A submission may have brought these files, or folders with their names.
	if err := report.Remove(w.Out, slices.Concat(formats.Files, []string{operatorLogFile})...); err != nil {
		return fmt.Errorf("%w: make the folder %s yours", err, cli.Relative(w.Out))
	}
	if err := report.Writable(w.Out); err != nil {
		return err
	}
	unfinished := w.blank(grade.Options{Lab: w.Lab, Dir: w.Dir})
	unfinished.Outcome, unfinished.Reason = report.Unfinished,
		"the run has not ended: it is still running, or it was killed"
	return formats.Write(w.Out, *unfinished)
}

// settle writes the reports of a run that has ended, if the run did not fail.
func (w *Work) settle(result *report.Report, failed error) error {
	return report.Replace(w.Out, formats.Files, failed, func() error {
		if err := formats.Write(w.Out, *result); err != nil {
			return err
		}
		if result.Outcome == report.Interrupted {
			return nil // hints and progress use the last run that was not interrupted
		}
		return report.Replace(w.Out, []string{verdictDir}, nil, func() error {
			return formats.Write(filepath.Join(w.Out, verdictDir), *result)
		})
	})
}

// prepare builds what a grading run needs besides the submission, which takes minutes on a fresh machine, and returns
// the options of the run.
func (w *Work) prepare(ctx context.Context, settings Options) (options grade.Options, err error) {
	options = grade.Options{
		Lab: w.Lab, Dir: w.Dir, Main: w.Main,
		OperatorLog: filepath.Join(w.Out, operatorLogFile), BuildCache: w.BuildCache(w.Dir),
		Kubectl: w.ControlPlane.Path, System: w.Placement.System(w.Lab),
		// Modules of the checkout's labs and solutions are downloaded automatically. Modules of other submissions are not.
		Fetch: settings.Fetch || !w.Foreign && submission.MissingModules(w.Dir) > 0,
		Seed:  settings.Seed, Stories: settings.Stories, Scenes: settings.Scenes, First: settings.First,
		Start: settings.Start, On: settings.On, Sandbox: settings.Sandbox,
	}
	if err = report.Writable(w.Out); err != nil {
		return options, err
	}
	if err = w.Prepare(ctx, w.Placement.WithNode(w.Lab), w.Lab); err != nil {
		return options, err
	}
	if options.ControllerGen, err = w.ControllerGen(ctx); err != nil {
		return options, err
	}
	if options.Checks, err = w.Checks(ctx, w.Lab); err != nil || w.Lab.Steps() == 0 || w.Solution {
		return options, err
	}
	options.NotStarted, err = settings.NotStarted(w.Root, w.Lab.Name, w.Dir)
	return options, err
}
