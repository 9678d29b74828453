// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"slices"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// limitedTo returns the choice with only the checks of one part of its lab.
func (c *choice) limitedTo(part string) (*choice, error) {
	lab, err := c.Lab.Limit(part)
	if err != nil {
		return nil, err
	}
	limited := *c
	limited.Lab = lab
	return &limited, nil
}

// watchTarget is what a watch grades. In a lab that is built in parts, it is the current part alone, so that the
// verdict comes soon.
type watchTarget struct {
	lab *choice
	// only is the part that the user named. Empty: one part after the other, and the whole lab when all parts have full
	// marks.
	only string
}

// next returns what to grade now, according to earlier runs.
func (s watchTarget) next() (*choice, error) {
	if s.only != "" {
		return s.lab.limitedTo(s.only)
	}
	done, err := report.ReadKept[bool](s.lab.Out, partsFile, partsKept)
	if err != nil {
		return nil, err
	}
	for _, part := range s.lab.Lab.Parts() {
		if !done[part] {
			return s.lab.limitedTo(part)
		}
	}
	return s.lab, nil
}

// follows reports whether grading continues after a verdict without a saved file: with the next part, or finally with
// the whole lab.
func (s watchTarget) follows(graded *choice, verdict *report.Report) bool {
	return s.only == "" && graded.Lab.Part != "" && verdict.FullMarks()
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

// partUsage names the parts of the labs that have any, for a flag.
const partUsage = "only this part of a lab that is built in parts, as read of lab 7 " +
	"(default: the first that has not full marks; after the last one, the whole lab)"
