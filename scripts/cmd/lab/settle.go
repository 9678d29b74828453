// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// reportFiles are the files that formats.Write writes. The JSON report comes first, because it counts even if the
// others can't be written.
var reportFiles = []string{report.JSONFile, report.JUnitFile, report.HTMLFile}

// settle writes the reports of a run that has ended, if the run did not fail.
func (c *choice) settle(result *report.Report, failed error) error {
	return replaceReports(c.Out, reportFiles, failed, func() error {
		if err := formats.Write(c.Out, *result); err != nil {
			return err
		}
		if result.Outcome == report.Interrupted {
			return nil // hints and progress use the last run that was not interrupted
		}
		return replaceReports(c.Out, []string{verdictDir}, nil, func() error {
			return formats.Write(filepath.Join(c.Out, verdictDir), *result)
		})
	})
}

// replaceReports lets a run replace files of a folder. If that fails, or the run failed before, none of the files
// exists afterwards. A submission runs as this user, and may have left files of its own, which must not be taken for
// those of the run.
func replaceReports(dir string, names []string, failed error, write func() error) error {
	err := failed
	if err == nil {
		err = removeReports(dir, names...)
	}
	if err == nil {
		err = write()
	}
	if err == nil {
		return nil
	}
	if removeErr := removeReports(dir, names...); removeErr != nil {
		return fmt.Errorf(
			"%w, and a file of an earlier run may be left, because it can't be removed: %w: remove it", err, removeErr,
		)
	}
	return err
}

// removeReports removes files and folders from a folder of reports. A submission may have removed the permission, but
// it ran as this user, so this user can restore it.
func removeReports(dir string, names ...string) error {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(dir, info.Mode().Perm()|0o700) // if the folder is another user's, removing fails with the reason
	}
	for _, name := range names {
		if err := removal.All(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing a file or folder at the report's path: %w", err)
		}
	}
	return nil
}
