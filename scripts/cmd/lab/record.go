// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/runs"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

func recordCommand() *cobra.Command {
	var only []string
	command := &cobra.Command{
		Use: "record [N…]", GroupID: groupMaintainers,
		Short: "Grade the runs that docs/runs shows, and keep their reports there",
		Long: "record grades the skeleton, the mistake that docs/runs/mistakes.yaml names, " +
			"and the solution of each lab, and keeps the reports in\n" +
			"docs/runs. A run that is not graded as mutants.yaml requires is discarded.",
		Example: "  lab record 3 --only mistake",
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range only {
				if !slices.Contains(runs.Names, name) {
					return fmt.Errorf("--only %s: choose from %s", name, strings.Join(runs.Names, ", "))
				}
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			labs, err := repo.Labs.Named(args)
			if err != nil {
				return err
			}
			for _, lab := range labs {
				if err := recordLab(c.Context(), repo, lab, only); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().StringSliceVar(&only, "only", nil, "record only these: skeleton, mistake, solution (default: all)")
	return command
}

// recordLab grades the runs of a lab as a user would, in folders outside the labs, and keeps their reports.
func recordLab(ctx context.Context, repo *checkout.Checkout, lab *manifest.Lab, only []string) (err error) {
	all, err := runs.Required(repo.Root, lab)
	if err != nil {
		return err
	}
	if err := repo.Prepare(ctx, lab.NeedsNode(lab.Stage), lab); err != nil {
		return err
	}
	controllerGen, err := repo.ControllerGen(ctx)
	if err != nil {
		return err
	}
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range all {
		run := &all[i]
		if len(only) > 0 && !slices.Contains(only, run.Name) {
			continue
		}
		fmt.Printf("%s %s …\n", lab.Name, run.Name)
		dir := filepath.Join(runner.Dir(), run.Name, lab.Name)
		if err := run.LayOut(ctx, repo, controllerGen, dir); err != nil {
			return err
		}
		// The exit code is 1 if points are missing. The report shows whether there is a grade.
		output, failed := runner.Run(ctx, repo.Root, nil, program, "grade", strconv.Itoa(lab.Number), "--dir", dir)
		out, err := repo.Out(filepath.Join("submissions", checkout.ReportsOf(dir)))
		if err != nil {
			return err
		}
		graded, err := report.Read(filepath.Join(out, lab.Name, report.JSONFile))
		if err := errors.Join(err, os.RemoveAll(out)); err != nil {
			return fmt.Errorf("grading %s of %s: %w\n%s", run.Name, lab.Name, errors.Join(failed, err), output)
		}
		if err := run.Keep(repo.Root, graded); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", run.File(), graded.Points())
	}
	return nil
}
