// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/own"
)

// TestControlPlaneIsReused lends one control plane three times, and then another one, because a run changed an object
// that existed before.
func TestControlPlaneIsReused(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	pool := own.NewPool(have.ControlPlane)
	var lent []*stage.Cluster
	inOwn := map[string]*report.Report{} // by submission and lab
	for _, test := range []struct {
		name, submission, lab string
		change                func(*testing.T, kubernetes.Interface)
		another               bool // control plane than the last one
	}{
		{name: "the first", submission: "base", lab: "2", another: true},
		{name: "after one that served icecreams", submission: "another-version", lab: "2"},
		{
			name: "after one that served them in another version", submission: "base", lab: "1",
			change: func(t *testing.T, client kubernetes.Interface) {
				t.Helper()
				if _, err := client.CoreV1().Namespaces().Patch(t.Context(), "default", "application/merge-patch+json",
					[]byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		},
		{name: "after one that has changed what was there", submission: "base", lab: "2", another: true},
	} {
		lease := pool.Lease()
		options := options(t, test.lab, unpack(t, test.submission))
		key := test.submission + " " + test.lab
		if inOwn[key] == nil {
			inOwn[key] = grade(t.Context(), t, alone(t, options))
		}
		want := inOwn[key]
		var borrowed *stage.Cluster
		options.Start = func(ctx context.Context, onWait func(string)) (stage.Stage, error) {
			st, err := lease.Start(ctx, onWait)
			if err == nil {
				borrowed = st.Cluster()
			}
			return st, err
		}
		got := grade(t.Context(), t, options)
		if got.Outcome != want.Outcome || got.Reason != want.Reason || got.Score != want.Score {
			t.Errorf("%s: outcome is %s (%s, %d points), but %s (%s, %d points) in a separate control plane",
				test.name, got.Outcome, got.Reason, got.Score, want.Outcome, want.Reason, want.Score)
		}
		for i, check := range got.Checks {
			if other := want.Checks[i]; check.ID != other.ID || check.Status != other.Status {
				t.Errorf("%s: %s %s, but %s %s in a separate control plane",
					test.name, check.ID, check.Status, other.ID, other.Status)
			}
		}
		if last := len(lent) - 1; test.another == (last >= 0 && lent[last].Kubeconfig == borrowed.Kubeconfig) {
			t.Errorf("%s: another control plane: %t, want %t", test.name, !test.another, test.another)
		}
		lent = append(lent, borrowed)
		if test.change != nil {
			test.change(t, kubernetes.NewForConfigOrDie(borrowed.Config))
		}
		lease.Return()
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	// TestMain checks that none of their processes is left.
	for _, cluster := range lent {
		if _, err := os.Stat(cluster.Kubeconfig); err == nil {
			t.Errorf("%s still exists", cluster.Kubeconfig)
		}
	}
}
