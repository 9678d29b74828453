// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"fmt"
	"slices"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// blocked returns why a check must be skipped, given the results of the checks before it. Empty means that it can run.
// A needed check without a status blocks it too, so that a check that was left out never counts as passed.
func blocked(lab *manifest.Lab, id string, statuses map[string]report.Status) string {
	needed, err := lab.Needed(id)
	if err != nil {
		return "skipped: " + err.Error()
	}
	for _, need := range needed {
		switch statuses[need] {
		case report.Passed:
		case report.Failed:
			return fmt.Sprintf("skipped: it needs %s, which failed", need)
		case report.Skipped:
			return fmt.Sprintf("skipped: it needs %s, which was skipped", need)
		default:
			return fmt.Sprintf("skipped: it needs %s, which has not run", need)
		}
	}
	return ""
}

// mayExplain reports whether a blocked check must run nevertheless, because it may name the cause of a failed check.
func mayExplain(lab *manifest.Lab, id string, statuses map[string]report.Status) bool {
	return slices.ContainsFunc(lab.Checks, func(check manifest.Check) bool {
		return statuses[check.ID] == report.Failed && slices.Contains(check.Causes, id)
	})
}
