// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// An exit of the operator before the upgrade ends the run. After the upgrade, it ends only the extension.
func TestExitAfterUpgradeEndsOnlyExtension(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "operator.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, upgraded := range []bool{false, true} {
		r := &results{
			run: &run{Options: Options{View: silent{}}, report: &report.Report{
				Outcome: report.Graded, MaxScore: 100, Checks: []report.Check{
					{ID: "bakes", Title: "It bakes", MaxPoints: 100, Status: report.Passed},
					{ID: "converts", Title: "It converts", Extension: true, MaxPoints: 4, Status: report.Skipped},
					{ID: "migrates", Title: "It migrates", Extension: true, MaxPoints: 6, Status: report.Skipped},
				},
			}},
			operator: &operator{
				subject: &subject{builder: &submission.Builder{Submission: &submission.Submission{}}},
				log:     &operatorLog{file: log},
			},
			running: "converts", ended: sets.New("bakes"),
		}
		r.operator.upgraded.Store(upgraded)
		r.failRunning("it ended by itself")
		if got := r.endExtension("it ended by itself"); got != upgraded {
			t.Fatalf("upgraded: %v, but endExtension() = %v", upgraded, got)
		}
		if !upgraded {
			continue
		}
		r.conclude(t.Context(), nil)
		converts, migrates := r.report.Checks[1], r.report.Checks[2]
		if !r.report.FullMarks() || r.report.Complete() ||
			r.report.Points() != "100 of 100 points, and 0 of 10 of the extension" {
			t.Errorf("got %s, full marks: %v", r.report.Points(), r.report.FullMarks())
		}
		if converts.Status != report.Failed || converts.Observed != "it ended by itself" ||
			migrates.Status != report.Skipped || migrates.Reason != "skipped: it ended by itself" {
			t.Errorf("the checks of the extension are %+v and %+v", converts, migrates)
		}
	}
}
