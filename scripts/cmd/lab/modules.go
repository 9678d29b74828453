// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/submission"
)

// fetchModules downloads the modules that a lab or a solution of this checkout needs, unless they are cached. For other
// folders it does nothing, because nothing is downloaded for them without a request. system has the meaning of
// submission.Builder.
func fetchModules(ctx context.Context, repo *checkout.Checkout, dir, system string) error {
	lab := repo.LabOf(dir)
	if lab == nil {
		return nil
	}
	return fetchInto(ctx, "lab "+lab.Name, &submission.Builder{
		Submission: &submission.Submission{Dir: dir}, System: system,
	})
}

// fetchInto downloads the modules that a submission needs, unless they are cached. owner names the submission in the
// output.
func fetchInto(ctx context.Context, owner string, builder *submission.Builder) (err error) {
	dir := builder.Dir
	if submission.MissingModules(dir) == 0 {
		return nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	builder.Submission, builder.Scope = &submission.Submission{Dir: dir}, scope
	bar := progress.Start(os.Stderr, "download the modules of "+owner)
	if err := builder.Fetch(ctx, func(done, total int) { bar.Set("modules", done, total) }); err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}
