// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
)

// An operator's damage to the cluster is no error of the grader.
func TestDestructiveOperatorFailsChecks(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	type row struct {
		submission, observed, evidence string
		failed                         int // 0: it depends on timing
	}
	for _, test := range []row{
		{
			"labels-deletes-the-kind", `icecreams\.demo\.lva\.io "sundae" not found|could not find the requested resource`,
			"delete customresourcedefinitions icecreams.demo.lva.io → 200", 2,
		},
		{
			"labels-deletes-at-start", "watching icecreams: the API server has not listed them within 10s|" +
				"could not find the requested resource|custom resource definition is terminating", "", 0,
		},
		{
			"labels-orders-more", "the cluster can't be brought back to how it was: [0-9]+ icecreams could not be deleted",
			"[0-9]+ × create icecreams", 1,
		},
	} {
		t.Run(test.submission, func(t *testing.T) {
			t.Parallel()
			options := played(t, "02-labels", unpack(t, "labels", test.submission))
			options.Seed = 4711 // its first writes, which matter here, are answered with this seed
			got := grade(t.Context(), t, options)
			if got.Outcome != report.Graded || got.Score != 0 {
				t.Fatalf("outcome is %s with %d points: %s", got.Outcome, got.Score, got.Reason)
			}
			first := got.Explained()
			match(t, "the observation", first.Observed, test.observed)
			if test.evidence == "" {
				return
			}
			match(t, "the evidence", strings.Join(first.Evidence, "\n"), test.evidence)
			if n := got.Count(report.Failed); test.failed != 0 && n != test.failed {
				t.Errorf("%d checks failed, want %d", n, test.failed)
			}
		})
	}
}
