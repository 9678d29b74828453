// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
)

// forbidNamespaces makes a command run as on a machine that forbids user namespaces.
func forbidNamespaces(t *testing.T, c *exec.Cmd) {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatalf("unshare of util-linux is needed: %v", err)
	}
	const forbid = `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`
	c.Args = append([]string{unshare, "--user", "--map-root-user", "sh", "-c", forbid},
		append([]string{c.Path}, c.Args[1:]...)...)
	c.Path = unshare
}

// Points never depend on the machine. If it can't run Pods, there is no score, or, at the student's request, a score
// for the checks that need no Pods.
func TestMachineWithoutNamespacesGivesNoPoints(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	if os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
		if err := exec.Command("unshare", "--user", "--map-root-user", "true").Run(); err != nil {
			t.Skipf("unshare can't create a user namespace here, see CI, which sets OPERATOR_LABS_NAMESPACES=required: %v", err)
		}
	}
	root := complete(t, "05-cert-manager", "08-lolcow", "09-webapp")
	lab, err := findCheckout(t).Labs.Lab("8")
	if err != nil {
		t.Fatal(err)
	}
	limited, err := lab.WithoutNode()
	if err != nil {
		t.Fatal(err)
	}
	points := limited.MaxScore()
	const cause = "this machine allows no namespaces of the kind user: let root run: sysctl user.max_user_namespaces=15000"
	for _, test := range []struct {
		args, lab string
		outcome   report.Outcome
		score     int
		reason    string
		message   string
	}{
		{
			"grade 5 --solution", "05-cert-manager", report.Error, 0,
			"lab 5 needs Pods, and none can run on this machine: " + cause, "outcome: error",
		},
		{
			"grade 8 --solution", "08-lolcow", report.Error, 0,
			"lab 8 needs Pods, and none can run on this machine: " + cause, "--without-node",
		},
		{
			"grade 9 --solution", "09-webapp", report.Error, 0,
			"lab 9 needs Pods, and none can run on this machine: " + cause, "--without-node",
		},
		{
			"grade 8 --solution --without-node", "08-lolcow", report.Graded, points,
			"", fmt.Sprintf("%d of the %d points that this machine can decide", points, points),
		},
	} {
		c, temporary := command(t, root, strings.Fields(test.args)...)
		forbidNamespaces(t, c)
		output, err := c.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); !failed {
			t.Errorf("%s: the exit code must not be 0: %v\n%s", test.args, err, output)
		}
		wantNothing(t, temporary)
		out := filepath.Join(root, "out", "solutions", test.lab)
		got, err := report.Read(filepath.Join(out, report.JSONFile))
		if err != nil {
			t.Fatalf("%s: %v\n%s", test.args, err, output)
		}
		if got.Outcome != test.outcome || got.Score != test.score || !strings.HasPrefix(got.Reason, test.reason) ||
			strings.Contains(got.Reason, "itself failed") {
			t.Errorf("%s: %s with %d points: %s", test.args, got.Outcome, got.Score, got.Reason)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(output)), " "), test.message) {
			t.Errorf("%s: the output lacks %q:\n%s", test.args, test.message, output)
		}
		if _, err := os.Stat(filepath.Join(out, "best", report.JSONFile)); err == nil {
			t.Errorf("%s: the report became the best score", test.args)
		}
	}
}
