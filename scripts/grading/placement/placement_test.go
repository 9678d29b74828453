// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package placement

import (
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
)

// Grading starts a node if labs.yaml requires it, unless the flags override that.
func TestGradingsThatNeedNode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		placement Placement
		lab       manifest.Lab
		want      bool // whether the operator is a Pod of the node
	}{
		{Placement{}, manifest.Lab{Operator: true, Stage: manifest.Pod}, true},
		{Placement{}, manifest.Lab{Operator: true, Stage: manifest.Process}, false},
		{Placement{}, manifest.Lab{Operator: true}, false},
		{Placement{}, manifest.Lab{Stage: manifest.Pod}, false}, // no operator, no Pod
		{Placement{Pod: true}, manifest.Lab{Operator: true}, true},
		{Placement{Process: true}, manifest.Lab{Operator: true, Stage: manifest.Pod}, false},
		{Placement{Cluster: "kind"}, manifest.Lab{Operator: true, Stage: manifest.Pod}, false},
	} {
		if got := test.placement.OnNode(&test.lab); got != test.want {
			t.Errorf("%+v, stage %q: OnNode() = %t, want %t", test.placement, test.lab.Stage, got, test.want)
		}
	}
}

// A lab whose checks look at files of this machine has no Pod on any cluster. Others have one on kind.
func TestProcessStageIsNeverPod(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listed, want manifest.Stage }{
		{"", manifest.Pod}, {manifest.Pod, manifest.Pod}, {manifest.Process, manifest.Process},
	} {
		lab := manifest.Lab{Name: "10-x", Operator: true, Stage: test.listed}
		if got := (Placement{Cluster: "kind"}).Stage(&lab); got != test.want {
			t.Errorf("on kind with stage %q: Stage() = %s, want %s", test.listed, got, test.want)
		}
	}
	_, _, err := (Placement{Pod: true}).Start(t.Context(), nil, &manifest.Lab{
		Name: "10-x", Operator: true, Stage: manifest.Process,
	})
	if want := "lab 10-x looks at files that its operator writes on this machine: leave out --pod"; err == nil ||
		err.Error() != want {
		t.Errorf("Start() with --pod: error = %v, want %q", err, want)
	}
}

// In a lab with node: true the embedded cluster has a node wherever its operator runs. Another cluster has nodes of its
// own.
func TestProcessOfLabWithPodsNeedsNode(t *testing.T) {
	t.Parallel()
	lab := manifest.Lab{Operator: true, Node: true}
	for _, test := range []struct {
		placement Placement
		pod, want bool
	}{
		{Placement{}, false, true},
		{Placement{Process: true}, false, true},
		{Placement{Pod: true}, true, true},
		{Placement{Cluster: "kind"}, false, false},
	} {
		if pod, got := test.placement.OnNode(&lab), test.placement.WithNode(&lab); pod != test.pod || got != test.want {
			t.Errorf("%+v: OnNode() = %t, want %t; WithNode() = %t, want %t",
				test.placement, pod, test.pod, got, test.want)
		}
	}
	if with := (Placement{}).WithNode(&manifest.Lab{Operator: true}); with {
		t.Error("a lab without node: true gets a node")
	}
}
