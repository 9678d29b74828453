// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// A precondition is a check of an earlier lab, so that lab's lecture explains it.
func TestReadOpensLectureOfCheck(t *testing.T) {
	t.Parallel()
	labs, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := labs.Labs.Lab("3")
	if err != nil {
		t.Fatal(err)
	}
	c := choice{Checkout: labs, Lab: lab}
	for _, check := range lab.Checks {
		file, _, _ := strings.Cut(strings.TrimPrefix(check.Lecture, "docs/lectures/0"), "-")
		if got, want := c.screen("").Commands.Read(check.Lecture), "make read-"+file; got != want {
			t.Errorf("%s: read command = %s, want %s", check.ID, got, want)
		}
		if check.Precondition() && file != "1" {
			t.Errorf("the precondition %s has its lecture in lab %s, want lab 1", check.ID, check.Lecture)
		}
	}
}

// Grading starts a node if labs.yaml requires it, unless the flags override that.
func TestGradingsThatNeedNode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags clusterFlags
		lab   manifest.Lab
		want  bool // whether the operator is a Pod of the node
	}{
		{clusterFlags{}, manifest.Lab{Operator: true, Stage: manifest.Pod}, true},
		{clusterFlags{}, manifest.Lab{Operator: true, Stage: manifest.Process}, false},
		{clusterFlags{}, manifest.Lab{Operator: true}, false},
		{clusterFlags{}, manifest.Lab{Stage: manifest.Pod}, false}, // no operator, no Pod
		{clusterFlags{pod: true}, manifest.Lab{Operator: true}, true},
		{clusterFlags{process: true}, manifest.Lab{Operator: true, Stage: manifest.Pod}, false},
		{clusterFlags{cluster: "kind"}, manifest.Lab{Operator: true, Stage: manifest.Pod}, false},
	} {
		if got := test.flags.onNode(&test.lab); got != test.want {
			t.Errorf("flags %+v, stage %q: onNode() = %t, want %t", test.flags, test.lab.Stage, got, test.want)
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
		if got := (&clusterFlags{cluster: "kind"}).stage(&lab); got != test.want {
			t.Errorf("on kind with stage %q: stage() = %s, want %s", test.listed, got, test.want)
		}
	}
	_, _, err := (&clusterFlags{pod: true}).start(t.Context(), nil, &manifest.Lab{
		Name: "10-x", Operator: true, Stage: manifest.Process,
	})
	if want := "lab 10-x looks at files that its operator writes on this machine: leave out --pod"; err == nil ||
		err.Error() != want {
		t.Errorf("start() with --pod: error = %v, want %q", err, want)
	}
}

// In a lab with node: true the embedded cluster has a node wherever its operator runs. Another cluster has nodes of its
// own.
func TestProcessOfLabWithPodsNeedsNode(t *testing.T) {
	t.Parallel()
	lab := manifest.Lab{Operator: true, Node: true}
	for _, test := range []struct {
		flags     clusterFlags
		pod, want bool
	}{
		{clusterFlags{}, false, true},
		{clusterFlags{process: true}, false, true},
		{clusterFlags{pod: true}, true, true},
		{clusterFlags{cluster: "kind"}, false, false},
	} {
		if pod, got := test.flags.onNode(&lab), test.flags.withNode(&lab); pod != test.pod || got != test.want {
			t.Errorf("flags %+v: onNode() = %t, want %t; withNode() = %t, want %t",
				test.flags, pod, test.pod, got, test.want)
		}
	}
	if with := (&clusterFlags{}).withNode(&manifest.Lab{Operator: true}); with {
		t.Error("a lab without node: true gets a node")
	}
}

func TestNoticeWithoutNamespaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		foreign bool
		kept    process.Containment
		notice  bool
	}{
		{true, process.Namespaces, false},
		{true, process.Supervised, true},
		{true, process.Grouped, true},
		{true, "", false}, // it does not build, or runs as a Pod
		{false, process.Supervised, false},
		{false, process.Grouped, false},
	} {
		notice := (&choice{foreign: test.foreign}).uncontained(string(test.kept))
		is := strings.Contains(notice, "no namespaces of its own") &&
			strings.Contains(notice, "Grade submissions of strangers")
		if is != test.notice || !is && notice != "" {
			t.Errorf("foreign %t, contained by %q: notice = %q", test.foreign, test.kept, notice)
		}
	}
}
