// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"strings"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

// onNode runs the operator as a Pod on an embedded cluster's node.
func onNode(t *testing.T) func(*Options) {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	parts := stagetest.Node(t, have.Checkout)
	return func(o *Options) {
		o.System = "linux"
		o.Start = node.Start(func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) {
			return embedded.StartWithNode(ctx, have.ControlPlane, parts)
		}, images.StoreOf(have.Root), have.ControlPlane.Path)
	}
}

// besideNode runs the operator as a process, and the Pods that it creates on an embedded cluster's node.
func besideNode(t *testing.T) func(*Options) {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	parts := stagetest.Node(t, have.Checkout)
	return func(o *Options) {
		o.Start = node.StartForProcesses(func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) {
			return embedded.StartWithNode(ctx, have.ControlPlane, parts)
		})
	}
}

// The checks treat an operator the same, whether it is a process or a Pod of the embedded cluster's node: they
// restart it, kill it at its writes, and call its webhooks.
func TestOperatorRunsAsPodOfNode(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	configure := onNode(t)
	for _, lab := range []string{"2", "4"} {
		t.Run(lab, func(t *testing.T) {
			t.Parallel()
			listed, err := have.Labs.Lab(lab)
			if err != nil {
				t.Fatal(err)
			}
			o := options(t, lab, have.SolutionDir(listed))
			configure(&o)
			wantFull(t, grade(t.Context(), t, o))
		})
	}
}

// A Pod is killed at each of its writes, as a process is, and an operator that fails then fails under the same
// schedule.
func TestTortureOfPodOfNode(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	configure := onNode(t)
	for _, test := range []struct {
		submissions []string
		falls       string
		tried       int
	}{
		{[]string{"labels", "deployed"}, "", 5}, // no faults, and two crashes at each of its two writes
		{[]string{"labels", "deployed", "labels-thoughtless"}, "kill-after write 1", 3},
	} {
		t.Run(strings.Join(test.submissions, ", "), func(t *testing.T) {
			o := played(t, "02-labels", unpack(t, test.submissions...))
			o.Seed = 4711
			configure(&o)
			trials, progress := tortured(t, o, 0)
			falls := ""
			if trials.Failure != nil {
				falls = trials.Failure.Schedule.String()
			}
			if trials.Run.Outcome != report.Graded || falls != test.falls || trials.Tried != test.tried {
				t.Errorf("%s %s: after %d schedules, it fails under %q, want %q after %d; progress:\n%s\n%s",
					trials.Run.Outcome, trials.Run.Reason, trials.Tried, falls, test.falls, test.tried,
					strings.Join(progress, "\n"), strings.Join(trials.Run.OperatorLog, "\n"))
			}
		})
	}
}
