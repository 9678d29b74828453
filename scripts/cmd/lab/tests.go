// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/testgrade"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
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
				return fmt.Errorf("the tests of lab %s are not graded: they are in %s", chosen.Lab.Name, labsWithTests(chosen.Labs))
			}
			all, err := testgrade.GradeWork(command.Context(), chosen,
				testgrade.Options{Within: within, Parallel: parallel}, fetch, os.Stdout)
			if err != nil {
				return err
			}
			terminal.RenderTests(os.Stdout, all, cli.Relative(filepath.Join(chosen.Out, report.TestsHTMLFile)))
			if !all.FullMarks() {
				return cli.ErrReported
			}
			return nil
		},
	}
	flags.register(command)
	command.Flags().DurationVar(&within, "within", within,
		"time limit for all mutants; mutants that have not started by then are not tried")
	command.Flags().Var((*cli.Count)(&parallel), "parallel", "how many mutants to try in parallel")
	command.Flags().BoolVar(&fetch, "fetch", false, "download the modules that the tests need before they are compiled")
	return command
}

func labsWithTests(labs *manifest.Manifest) string {
	var names []string
	for i := range labs.Labs {
		if labs.Labs[i].Tests != nil {
			names = append(names, labs.Labs[i].Name)
		}
	}
	return english.WordSeries(names, "and")
}
