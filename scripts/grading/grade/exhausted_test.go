// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func TestResultOnFullDisk(t *testing.T) {
	t.Parallel()
	survived, broken := &torture{}, &torture{Trials: Trials{Failure: &Failure{}}}
	for _, test := range []struct {
		name     string
		err      error
		check    report.Status
		torture  *torture
		replaced bool
	}{
		{"success", nil, report.Passed, nil, false},
		{"a check failed", nil, report.Failed, nil, true},
		{"it does not compile", &verdict{outcome: report.NotBuilt}, report.Skipped, nil, false},
		{"no manifests", &verdict{outcome: report.NotGenerated}, report.Skipped, nil, false},
		{"it crashed", &verdict{outcome: report.Crashed, reason: "it ended"}, report.Skipped, nil, true},
		{"the machine was too busy", overloaded("it waited"), report.Skipped, nil, false},
		{"the grader failed", errors.New("no space left"), report.Skipped, nil, true},
		{"a torture that it survived", nil, report.Skipped, survived, false},
		{"a torture with a failure", nil, report.Skipped, broken, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &run{
				Options: Options{torture: test.torture},
				report:  &report.Report{Checks: []report.Check{{Status: report.Passed}, {Status: test.check}}},
			}
			got := r.onFullDisk(test.err)
			if !test.replaced {
				if !errors.Is(got, test.err) {
					t.Errorf("onFullDisk(%v) = %v", test.err, got)
				}
				return
			}
			v, is := errors.AsType[*verdict](got)
			if !is || v.outcome != report.Error || !v.machine || !strings.HasPrefix(v.reason, fullDisk) {
				t.Fatalf("onFullDisk(%v) = %+v", test.err, got)
			}
			if test.err != nil && !strings.Contains(v.reason, test.err.Error()) {
				t.Errorf("the reason %q does not name %q", v.reason, test.err)
			}
		})
	}
}
