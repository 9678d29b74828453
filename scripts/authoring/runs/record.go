// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// Record grades the runs of a lab as a user would, in folders outside the labs, and keeps their reports. It runs this
// program, which must be the lab command. only are the names of the runs. Default: all.
func Record(
	ctx context.Context, repo *checkout.Checkout, lab *manifest.Lab, only []string, out io.Writer,
) (err error) {
	all, err := Required(repo.Root, lab)
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
		fmt.Fprintf(out, "%s %s …\n", lab.Name, run.Name)
		dir := filepath.Join(runner.Dir(), run.Name, lab.Name)
		if err := run.LayOut(ctx, repo, controllerGen, dir); err != nil {
			return err
		}
		// The exit code is 1 if points are missing. The report shows whether there is a grade.
		output, failed := runner.Run(ctx, repo.Root, nil, program, "grade", strconv.Itoa(lab.Number), "--dir", dir)
		reports, err := repo.Out(filepath.Join("submissions", checkout.ReportsOf(dir)))
		if err != nil {
			return err
		}
		graded, err := report.Read(filepath.Join(reports, lab.Name, report.JSONFile))
		if err := errors.Join(err, os.RemoveAll(reports)); err != nil {
			return fmt.Errorf("grading %s of %s: %w\n%s", run.Name, lab.Name, errors.Join(failed, err), output)
		}
		if err := run.Keep(repo.Root, graded); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", run.File(), graded.Points())
	}
	return nil
}
