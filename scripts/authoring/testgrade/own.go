// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/work"
)

// GradeWork grades the tests of a student's work with all mutants, shows the progress, and writes the report beside the
// other reports. fetch lets the go command download the modules of a submission outside of the checkout, too.
func GradeWork(
	ctx context.Context, w *work.Work, options Options, fetch bool, out *os.File,
) (*report.Tests, error) {
	if err := report.Writable(w.Out); err != nil {
		return nil, err
	}
	if err := prepare(ctx, w, &options, fetch); err != nil {
		return nil, err
	}
	bar := progress.Start(out, "grade the tests")
	options.Progress = bar.Set
	all, err := runReported(ctx, w, options)
	if err != nil || all.Outcome == report.Error {
		bar.Fail()
	} else {
		bar.Done()
	}
	return all, err
}

// prepare sets the options for a work's tests, and fetches the modules that they need.
func prepare(ctx context.Context, w *work.Work, options *Options, fetch bool) (err error) {
	options.Lab, options.Dir, options.Main, options.Solution = w.Lab, w.Dir, w.Main, w.SolutionDir(w.Lab)
	if options.Assets, err = w.Assets(ctx); err != nil {
		return err
	}
	dirs := []string{options.Solution}
	if !w.Foreign || fetch {
		dirs = append(dirs, w.Dir)
	}
	for _, dir := range dirs {
		if err := submission.FetchMissing(ctx, cli.Relative(dir), &submission.Builder{
			Submission: &submission.Submission{Dir: dir}, Tests: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// runReported grades tests and writes the report, without details that would reveal what to test.
func runReported(ctx context.Context, w *work.Work, options Options) (*report.Tests, error) {
	// An old report is never taken for the new one, however this run ends.
	if err := formats.WriteTests(w.Out, Blank(&options)); err != nil {
		return nil, err
	}
	all := Run(ctx, options)
	if !w.Solution && !all.Known { // a known report has no such details any more
		revealed, err := KeepMissed(w.Out, w.Dir, w.Main, all)
		if err != nil {
			return nil, err
		}
		Hide(all, revealed)
	}
	return all, formats.WriteTests(w.Out, all)
}

// ownTests grades the student's own tests in a run of a lab in which they are worth points.
type ownTests struct {
	work     *work.Work
	settings work.Options
	// known has the results of an earlier run, or nil.
	known *report.Tests
}

// ForWork returns what grades the student's own tests in a run of package work.
func ForWork(w *work.Work, settings work.Options) work.OwnTests {
	return &ownTests{work: w, settings: settings}
}

// Take removes the results of an earlier run on the student's own tests from the folder of the reports. It runs before
// code of the submission, which could write there. Anyone can compute the digest by which results are trusted. For a
// submission outside of the checkout there never are any results, since it may be another person's and may have run
// before.
func (o *ownTests) Take() (err error) {
	if o.work.Foreign {
		return nil
	}
	if o.known, err = report.ReadTests(filepath.Join(o.work.Out, report.TestsJSONFile)); err != nil {
		o.known = nil // the report is missing, or this version can't read it
	}
	return report.Remove(o.work.Out, report.TestsJSONFile)
}

// restore writes the results back, and replaces anything that was written there since.
func (o *ownTests) restore() error {
	if o.work.Foreign {
		return nil
	}
	if err := report.Remove(o.work.Out, report.TestsJSONFile); err != nil || o.known == nil {
		return err
	}
	content, err := o.known.JSON()
	if err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(o.work.Out, report.TestsJSONFile), content)
}

// Grade grades the student's own tests. It runs after all checks, because both would disturb each other. As long as
// neither the tests nor the tested code has changed, the verdict of an earlier run counts, since a run takes a minute
// or more.
func (o *ownTests) Grade(ctx context.Context, view grade.View, result *report.Report) error {
	if err := o.restore(); err != nil {
		return err
	}
	if result.Outcome != report.Graded {
		Add(result, nil, o.work.Lab)
		return nil
	}
	began := time.Now()
	view.StepStarted(ownTestsStep)
	options := Options{
		Decide: true, Known: o.known, OnlyKnown: o.settings.KnownTests,
		Walled: o.settings.Sandbox != grade.SandboxOff, Strict: o.settings.Sandbox == grade.SandboxRequired,
		Progress: func(what string, done, total int) {
			if total > 0 {
				what = fmt.Sprintf("%s: %d of at most %d", what, done, total)
			}
			view.StepProgress(ownTestsStep, what)
		},
	}
	if err := prepare(ctx, o.work, &options, o.settings.Fetch); err != nil {
		return err
	}
	var tests *report.Tests
	var err error
	switch {
	case options.OnlyKnown && o.work.Foreign:
		tests = Blank(&options)
		tests.Reason = fmt.Sprintf("the tests of a folder outside of the checkout are run by `%s`", o.work.Command("grade"))
	case options.OnlyKnown:
		if tests = Run(ctx, options); tests.Outcome == report.Unfinished {
			tests.Reason += fmt.Sprintf(": `%s` grades them", o.work.Command("tests"))
		}
	default:
		if tests, err = runReported(ctx, o.work, options); err != nil {
			return err
		}
	}
	note := ""
	if tests.Known {
		note = "known from an earlier run"
	}
	view.StepDone(ownTestsStep, time.Since(began), note)
	Add(result, tests, o.work.Lab)
	view.CheckDone(result.Checks[len(result.Checks)-1])
	return nil
}

const ownTestsStep = "grade your tests"
