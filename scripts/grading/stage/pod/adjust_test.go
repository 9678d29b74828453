// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
)

// An operator gets extra flags after those of its Deployment. At the next start it no longer has them.
func TestExtraFlagsComeLastAndAreRemoved(t *testing.T) {
	longtest.Proof(t)
	cluster := stagetest.Cluster(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	d, err := newDeployment(stagetest.Objects(t, manager), &submission.Manifests{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := existing.Open(t.Context(), cluster.Kubeconfig, embedded.Context)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := all.Clean(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	own := []string{"--leader-elect"}
	d.manager.Spec.Template.Spec.Containers[0].Args = own
	options := installOptions{reference: "x", gateway: stage.Gateway{Host: "https://127.0.0.1:1"}}
	if _, _, err := d.install(t.Context(), install.Target{Config: cluster.Config()}, options); err != nil {
		t.Fatal(err)
	}
	o := &operator{Deployment: d, client: client}
	for _, flags := range [][]string{nil, {"--resync=1s", "--leader-elect=false"}, {"--resync=2s"}, {"--resync=2s"}, nil} {
		if err := o.scale(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := o.scaleUp(t.Context(), flags); err != nil {
			t.Fatal(err)
		}
		now, err := client.AppsV1().Deployments(d.Namespace).Get(t.Context(), d.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		container := now.Spec.Template.Spec.Containers[0]
		if want := slices.Concat(own, flags); !slices.Equal(container.Args, want) ||
			*now.Spec.Replicas != 1 || container.Image != "x" {
			t.Errorf("flags %q: got %d replicas of %s with %q", flags, *now.Spec.Replicas, container.Image, container.Args)
		}
	}
	a := adjustable{operator: o, known: []string{"resync"}}
	if !a.HasFlag("resync") || a.HasFlag("leader-elect") {
		t.Error("HasFlag() does not report the flags of the program")
	}
}
