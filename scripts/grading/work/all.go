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

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/placement"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/junit"
)

// GradeAll grades the selected submissions of all labs one after the other, and writes one JUnit report of all. It
// returns cli.ErrReported unless each has full marks.
func GradeAll(
	ctx context.Context, repo *checkout.Checkout, selected Selection, placed placement.Placement, settings Options,
) error {
	if err := removeJUnit(repo); err != nil {
		return err
	}
	all, err := repo.Labs.Named(nil)
	if err != nil {
		return err
	}
	if err := repo.Prepare(ctx, slices.ContainsFunc(all, placed.WithNode), all...); err != nil {
		return err
	}
	var reports []*report.Report
	full := true
	for _, lab := range all {
		w, err := Select(repo, lab, selected)
		if err != nil {
			return err
		}
		w.Placement = placed
		if settings.Start, settings.On, err = placed.Start(ctx, repo, lab); err != nil {
			return err
		}
		result, err := w.Grade(ctx, settings)
		if err != nil {
			return err
		}
		reports = append(reports, result)
		full = full && result.FullMarks()
		if ctx.Err() != nil {
			return cli.ErrReported
		}
		fmt.Fprintln(settings.Out)
	}
	if err := writeJUnit(repo, reports); err != nil {
		return err
	}
	for _, result := range reports {
		fmt.Fprintln(settings.Out, result.Summary())
	}
	if !full {
		return cli.ErrReported
	}
	return nil
}

// removeJUnit removes the JUnit file of the last run, because a run that ends too early does not write it.
func removeJUnit(repo *checkout.Checkout) error {
	dir, err := repo.Out("")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, report.JUnitFile)); err != nil {
		return fmt.Errorf("removing the JUnit report of the last run: %w", err)
	}
	return nil
}

// writeJUnit writes the JUnit file of all labs, for CI.
func writeJUnit(repo *checkout.Checkout, reports []*report.Report) error {
	dir, err := repo.Out("")
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, report.JUnitFile))
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return errors.Join(junit.Write(file, reports...), file.Close())
}
