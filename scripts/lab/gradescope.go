// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"lva.io/operators/scripts/grade"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/formats"
	"lva.io/operators/scripts/report/gradescope"
)

// resultsFile keeps Gradescope's results.json up to date while the checks run: if the container is ended from outside, what
// has been decided until then stands.
type resultsFile struct {
	grade.View
	file, visibility string
	// so far is the report as far as it is known, and err what kept it from being written.
	soFar *report.Report
	err   error
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
	g.write(g.soFar, true)
}

// write writes a report. The first error stays; it is the command's to tell.
func (g *resultsFile) write(r *report.Report, unfinished bool) {
	content, err := formats.Encode(r, formats.Gradescope, formats.Options{
		Gradescope: gradescope.Options{Visibility: g.visibility, Unfinished: unfinished},
	})
	if err == nil {
		err = report.WriteFile(g.file, content)
	}
	if g.err == nil {
		g.err = err
	}
}
