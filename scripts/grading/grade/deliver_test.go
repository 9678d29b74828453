// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/submission"
)

// deliverable returns a run of a lab whose checks deploy the submission.
func deliverable(t *testing.T) *run {
	t.Helper()
	r := &run{}
	r.Lab = &manifest.Lab{Name: "05-cert-manager", Stage: manifest.Deployed}
	return r
}

func TestDeliverNeedsNode(t *testing.T) {
	t.Parallel()
	st := local.New(&stage.Cluster{}, local.ByEgress(""))
	err := deliverable(t).deliver(t.Context(), st, &submission.Builder{}, &submission.Manifests{})
	if err == nil || !strings.Contains(err.Error(), "05-cert-manager") || !strings.Contains(err.Error(), "needs a node") {
		t.Errorf("deliver() error = %v", err)
	}
}

func TestChecksReceiveImageAndManifests(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scope.Close() })
	s := &subject{
		connection: &connection{}, builder: &submission.Builder{Scope: scope}, cluster: &stage.Cluster{Shared: true},
	}
	var run protocol.Run
	if err := deliverable(t).passDelivery(s, &run); err != nil || run.Image != "" || run.Manifests != "" {
		t.Errorf("without a delivery, the checks get the image %q and the manifests %q (%v)", run.Image, run.Manifests, err)
	}
	s.delivery = &stage.Delivery{
		Image: "operator-labs/graded:05", Manifests: []byte("kind: Namespace\n"), User: "system:serviceaccount:a:b",
	}
	if err := deliverable(t).passDelivery(s, &run); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(run.Manifests); err != nil || string(written) != "kind: Namespace\n" {
		t.Errorf("manifests are %q (%v)", written, err)
	}
	if run.Image != "operator-labs/graded:05" || !run.Shared || s.user() != "system:serviceaccount:a:b" {
		t.Errorf("the checks get the image %q (shared: %t), and the operator's user is %q", run.Image, run.Shared, s.user())
	}
}
