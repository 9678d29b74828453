// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

// withoutNamespaces makes this test binary run on a machine that forbids namespaces.
const withoutNamespaces = "OPERATOR_LABS_TEST_WITHOUT_NAMESPACES"

// Where a supervisor replaces the namespaces, it ends a submission that floods its log and one that leaves a daemon.
// TestMain fails if anything is left.
func TestSubmissionsEndWithoutNamespaces(t *testing.T) {
	longtest.Proof(t)
	if os.Getenv(withoutNamespaces) != "" {
		gradeFlood(t)
		return
	}
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const forbid = `for kind in user pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces || exit; done && exec "$0" "$@"`
	run := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "sh", "-c", forbid, program,
		"-test.v", "-test.run=^("+t.Name()+"|TestDaemonOfSubmissionIsKilled)$")
	run.Env = append(os.Environ(), withoutNamespaces+"=true")
	output, err := run.CombinedOutput()
	began := strings.Contains(string(output), "=== RUN")
	if err != nil && !began && os.Getenv(stagetest.NamespacesVariable) != "required" {
		t.Skipf("no user namespace can be made here, see CI, which sets %s=required: %v: %s",
			stagetest.NamespacesVariable, err, output)
	}
	if err != nil || strings.Count(string(output), "--- PASS: ") != 2 {
		t.Errorf("without namespaces: %v\n%s", err, output)
	}
}

func gradeFlood(t *testing.T) {
	t.Helper()
	got := grade(t.Context(), t, alone(t, options(t, "2", unpack(t, "floods-at-start"))))
	if got.Outcome != report.Flooded || got.Environment.Containment != string(process.Supervised) {
		t.Errorf("outcome is %s (%s), and containment %q", got.Outcome, got.Reason, got.Environment.Containment)
	}
}
