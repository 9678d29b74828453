// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"path/filepath"

	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/gradescope"
)

// resultsFile keeps Gradescope's results.json up to date while the checks run. If Gradescope kills the container, the
// results so far remain.
type resultsFile struct {
	grade.View
	file, visibility string
	// soFar is the report with the results so far.
	soFar *report.Report
}

func (g *resultsFile) CheckDone(done report.Check) {
	g.View.CheckDone(done)
	g.soFar.Score = 0
	for i := range g.soFar.Checks {
		check := &g.soFar.Checks[i]
		if check.ID == done.ID {
			*check = done
		}
		g.soFar.Score += check.Points
	}
	_ = g.write(g.soFar, true) // the last write reports the error
}

// finish writes the result of a run that has ended, if the run did not fail.
func (g *resultsFile) finish(result *report.Report, failed error) error {
	dir, name := filepath.Split(g.file)
	return report.Replace(filepath.Clean(dir), []string{name}, failed, func() error { return g.write(result, false) })
}

func (g *resultsFile) write(r *report.Report, unfinished bool) error {
	content, err := formats.Encode(r, formats.Gradescope, formats.Options{
		Gradescope: gradescope.Options{Visibility: g.visibility, Unfinished: unfinished},
	})
	if err != nil {
		return err
	}
	return report.WriteFile(g.file, content)
}
