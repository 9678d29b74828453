// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"slices"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// limitedTo returns the work with only the checks of one part of its lab.
func (w *Work) limitedTo(part string) (*Work, error) {
	lab, err := w.Lab.Limit(part)
	if err != nil {
		return nil, err
	}
	limited := *w
	limited.Lab = lab
	return &limited, nil
}

// target is what a watch grades. In a lab that is built in parts, it is the current part alone, so that the verdict
// comes soon.
type target struct {
	work *Work
	// part is the part that the user named. Empty: one part after the other, and the whole lab when all parts have full
	// marks.
	part string
}

// next returns what to grade now, according to earlier runs.
func (t target) next() (*Work, error) {
	if t.part != "" {
		return t.work.limitedTo(t.part)
	}
	done, err := report.ReadKept[bool](t.work.Out, partsFile, partsKept)
	if err != nil {
		return nil, err
	}
	for _, part := range t.work.Lab.Parts() {
		if !done[part] {
			return t.work.limitedTo(part)
		}
	}
	return t.work, nil
}

// continues reports whether grading continues after a verdict without a saved file: with the next part, or finally with
// the whole lab.
func (t target) continues(graded *Work, verdict *report.Report) bool {
	return t.part == "" && graded.Lab.Part != "" && verdict.FullMarks()
}

// partsFile, beside the reports, records which parts of a lab had full marks in the last verdict.
const (
	partsFile = "parts.json"
	partsKept = "which parts of the lab had full marks"
)

// keepParts records which parts have full marks according to a verdict, and which no longer do.
func keepParts(dir string, lab *manifest.Lab, verdict *report.Report) error {
	parts := lab.Parts()
	if len(parts) == 0 || verdict.Outcome == report.Error {
		return nil
	}
	done, err := report.ReadKept[bool](dir, partsFile, partsKept)
	if err != nil {
		return err
	}
	for _, part := range parts {
		done[part] = !slices.ContainsFunc(verdict.Checks, func(c report.Check) bool {
			listed, err := lab.Check(c.ID)
			return err == nil && listed.Part == part && c.Status != report.Passed
		})
	}
	return report.WriteKept(dir, partsFile, partsKept, done)
}
