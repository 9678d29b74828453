// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

// The played checks send every request that checks can send to the grader.
func TestControlSocket(t *testing.T) {
	t.Parallel()
	options := played(t, "01-socket", unpack(t, "labels", "scripts"))
	if err := os.Symlink("/etc/passwd", filepath.Join(options.Dir, "outside")); err != nil {
		t.Fatal(err)
	}
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Graded || got.Score != got.MaxScore {
		t.Errorf("outcome is %s: %s\n%s", got.Outcome, got.Reason, strings.Join(got.OperatorLog, "\n"))
	}
	for _, check := range got.Checks {
		if check.Status != report.Passed {
			t.Errorf("%s: expected %s\nobserved %s", check.ID, check.Expected, check.Observed)
		}
	}
}
