// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/testgrade"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/submission"
)

func testsCommand() *cobra.Command {
	var flags choiceFlags
	var fetch bool
	within, parallel := testgrade.DefaultWithin, testgrade.DefaultParallel
	command := &cobra.Command{
		Use: "tests N", GroupID: groupStudents, Short: "Grade your own tests: which of our wrong solutions do they find?",
		Long: "tests copies the _test.go files of a submission into our solution of the lab " +
			"and into each of its mutants, which are wrong solutions,\n" +
			"and runs them. They must pass on your operator and on ours, and fail on most of the mutants. " +
			"A mutant that they miss is explained\n" +
			"when two versions of the tests have missed it. The exit code is 0 only if they find enough.",
		Example: "  lab tests 2\n  lab tests 2 --dir ~/src/icecream-operator\n  lab tests 3 --solution --within 5m",
		Args:    exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			if within <= 0 {
				return fmt.Errorf("--within must be a positive duration, as 10m, and not %s", within)
			}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			if chosen.Lab.Tests == nil {
				return fmt.Errorf("the tests of lab %s are not graded: they are in %s", chosen.Lab.Name, labsWithTests(chosen))
			}
			return gradeTests(command.Context(), chosen, testgrade.Options{Within: within, Parallel: parallel}, fetch)
		},
	}
	flags.register(command)
	command.Flags().DurationVar(&within, "within", within,
		"time limit for all mutants; mutants that have not started by then are not tried")
	command.Flags().Var((*cli.Count)(&parallel), "parallel", "how many mutants to try in parallel")
	command.Flags().BoolVar(&fetch, "fetch", false, "download the modules that the tests need before they are compiled")
	return command
}

func labsWithTests(c *choice) string {
	var names []string
	for i := range c.Labs.Labs {
		if c.Labs.Labs[i].Tests != nil {
			names = append(names, c.Labs.Labs[i].Name)
		}
	}
	return english.WordSeries(names, "and")
}

// gradeTests grades the tests with all mutants, and prints the result.
func gradeTests(ctx context.Context, c *choice, options testgrade.Options, fetch bool) error {
	if err := report.Writable(c.Out); err != nil {
		return err
	}
	if err := prepareTests(ctx, c, &options, fetch); err != nil {
		return err
	}
	bar := progress.Start(os.Stdout, "grade the tests")
	options.Progress = bar.Set
	all, err := runTests(ctx, c, options)
	if err != nil || all.Outcome == report.Error {
		bar.Fail()
	} else {
		bar.Done()
	}
	if err != nil {
		return err
	}
	terminal.RenderTests(os.Stdout, all, cli.Relative(filepath.Join(c.Out, report.TestsHTMLFile)))
	if !all.FullMarks() {
		return cli.ErrReported
	}
	return nil
}

// prepareTests sets the options for the choice's tests, and fetches the modules that they need.
func prepareTests(ctx context.Context, c *choice, options *testgrade.Options, fetch bool) (err error) {
	options.Lab, options.Dir, options.Main, options.Solution = c.Lab, c.Dir, c.Main, c.SolutionDir(c.Lab)
	if options.Assets, err = c.Assets(ctx); err != nil {
		return err
	}
	dirs := []string{options.Solution}
	if !c.foreign || fetch {
		dirs = append(dirs, c.Dir)
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

// runTests grades tests and writes the report, without details that would reveal what to test.
func runTests(ctx context.Context, c *choice, options testgrade.Options) (*report.Tests, error) {
	// An old report is never taken for the new one, however this run ends.
	if err := formats.WriteTests(c.Out, testgrade.Blank(&options)); err != nil {
		return nil, err
	}
	all := testgrade.Run(ctx, options)
	if !c.solution && !all.Known { // a known report has no such details any more
		revealed, err := testgrade.KeepMissed(c.Out, c.Dir, c.Main, all)
		if err != nil {
			return nil, err
		}
		testgrade.Hide(all, revealed)
	}
	return all, formats.WriteTests(c.Out, all)
}

// takeKnownTests removes the results of an earlier run on the student's own tests from the folder of the reports, and
// returns them. It runs before code of the submission, which could write there. Anyone can compute the digest by which
// results are trusted. It returns nil if there are no results. For a submission outside of the checkout there never are
// any, since it may be another person's and may have run before.
func (c *choice) takeKnownTests() (*report.Tests, error) {
	if c.Lab.OwnTests() == nil || c.foreign {
		return nil, nil
	}
	known, err := report.ReadTests(filepath.Join(c.Out, report.TestsJSONFile))
	if err != nil {
		known = nil // the report is missing, or this version can't read it
	}
	if err := report.Remove(c.Out, report.TestsJSONFile); err != nil {
		return nil, err
	}
	return known, nil
}

// keepKnownTests writes the results back, and replaces anything that was written there since.
func (c *choice) keepKnownTests(known *report.Tests) error {
	if err := report.Remove(c.Out, report.TestsJSONFile); err != nil {
		return err
	}
	if known == nil {
		return nil
	}
	content, err := known.JSON()
	if err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(c.Out, report.TestsJSONFile), content)
}

// gradeOwnTests grades the student's own tests in a lab in which they are worth points. It runs after all checks,
// because both would disturb each other. As long as neither the tests nor the tested code has changed, the verdict of
// an earlier run counts, since a run takes a minute or more. known is the result of takeKnownTests.
func gradeOwnTests(
	ctx context.Context, c *choice, view grade.View, result *report.Report, settings gradeOptions, known *report.Tests,
) error {
	if c.Lab.OwnTests() != nil && !c.foreign {
		if err := c.keepKnownTests(known); err != nil {
			return err
		}
	}
	if c.Lab.OwnTests() == nil || result.Outcome != report.Graded {
		testgrade.Add(result, nil, c.Lab)
		return nil
	}
	began := time.Now()
	view.StepStarted(ownTestsStep)
	options := testgrade.Options{
		Decide: true, Known: known, OnlyKnown: settings.knownTests,
		Walled: settings.sandbox != grade.SandboxOff, Strict: settings.sandbox == grade.SandboxRequired,
		Progress: func(what string, done, total int) {
			if total > 0 {
				what = fmt.Sprintf("%s: %d of at most %d", what, done, total)
			}
			view.StepProgress(ownTestsStep, what)
		},
	}
	if err := prepareTests(ctx, c, &options, settings.fetch); err != nil {
		return err
	}
	var tests *report.Tests
	var err error
	switch {
	case settings.knownTests && c.foreign:
		tests = testgrade.Blank(&options)
		tests.Reason = fmt.Sprintf("the tests of a folder outside of the checkout are run by `%s`", c.command("grade"))
	case settings.knownTests:
		if tests = testgrade.Run(ctx, options); tests.Outcome == report.Unfinished {
			tests.Reason += fmt.Sprintf(": `%s` grades them", c.command("tests"))
		}
	default:
		if tests, err = runTests(ctx, c, options); err != nil {
			return err
		}
	}
	note := ""
	if tests.Known {
		note = "known from an earlier run"
	}
	view.StepDone(ownTestsStep, time.Since(began), note)
	testgrade.Add(result, tests, c.Lab)
	view.CheckDone(result.Checks[len(result.Checks)-1])
	return nil
}

const ownTestsStep = "grade your tests"
