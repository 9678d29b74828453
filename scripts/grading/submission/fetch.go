// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
)

// FetchMissing downloads the modules that a submission needs, unless they are cached. It shows its progress on standard
// error, where owner names the submission. builder needs no scope.
func FetchMissing(ctx context.Context, owner string, builder *Builder) (err error) {
	dir := builder.Dir
	if MissingModules(dir) == 0 {
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
	builder.Submission, builder.Scope = &Submission{Dir: dir}, scope
	bar := progress.Start(os.Stderr, "download the modules of "+owner)
	if err := builder.Fetch(ctx, func(done, total int) { bar.Set("modules", done, total) }); err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}
