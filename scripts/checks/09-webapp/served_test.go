// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// served checks the CRD, and needs no operator.
func served() frameworktypes.Feature {
	return features.New("the API server serves WebApps").
		Assess("with the fields of the task", check.Assess(assess(func(v visit) {
			const expected = "the API server serves apps.lva.io/v1alpha1, kind WebApp, plural webapps, namespaced, " +
				"with the subresources status and scale"
			var names []string
			for _, r := range v.town.resources {
				names = append(names, r.Name)
			}
			i := slices.IndexFunc(v.town.resources, func(r metav1.APIResource) bool { return r.Name == webapps.Resource })
			switch {
			case len(names) == 0:
				v.Fail(v.t, expected, "it serves nothing of apps.lva.io/v1alpha1: no CRD of the submission says so")
			case i < 0:
				v.Fail(v.t, expected, "of apps.lva.io/v1alpha1 it serves "+strings.Join(names, ", "))
			case v.town.resources[i].Kind != kind.Kind || !v.town.resources[i].Namespaced:
				v.Fail(v.t, expected, fmt.Sprintf("the kind is %s, and namespaced: %t",
					v.town.resources[i].Kind, v.town.resources[i].Namespaced))
			}
			for _, subresource := range []string{"/status", "/scale"} {
				if !v.town.serves(webapps.Resource + subresource) {
					v.Fail(v.t, expected, "it serves "+strings.Join(names, ", "))
				}
			}
			v.validates(webapps)
		}))).Feature()
}

// validates sends WebApps of a version as dry runs, so that they are never stored.
func (v visit) validates(version schema.GroupVersionResource) {
	v.t.Helper()
	port := portField(version)
	edits := []struct {
		what string
		ok   bool
		edit func(spec map[string]any)
	}{
		{"one with an image, a port and replicas", true, func(map[string]any) {}},
		{"one without replicas", true, func(spec map[string]any) { delete(spec, "replicas") }},
		{"one with 0 replicas", true, func(spec map[string]any) { spec["replicas"] = int64(0) }},
		{
			"one with a port that is out of the range of node ports, which is the cluster's and not the CRD's", true,
			func(spec map[string]any) { spec[port] = int64(80) },
		},
		{"one without an image", false, func(spec map[string]any) { delete(spec, "image") }},
		{"one with an empty image", false, func(spec map[string]any) { spec["image"] = "" }},
		{"one without a port", false, func(spec map[string]any) { delete(spec, port) }},
		{"one with port 0", false, func(spec map[string]any) { spec[port] = int64(0) }},
		{"one with port 65536", false, func(spec map[string]any) { spec[port] = int64(65536) }},
		{"one whose port is a text", false, func(spec map[string]any) { spec[port] = "30080" }},
		{"one with -1 replicas", false, func(spec map[string]any) { spec["replicas"] = int64(-1) }},
	}
	for _, e := range edits {
		object := v.town.draw(plans).in(version)
		spec := object.Object["spec"].(map[string]any)
		e.edit(spec)
		created, err := v.town.Dynamic.Resource(version).Namespace(plans).Create(v.ctx, object,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			v.OK(v.t, "asking for a dry run", err)
		}
		switch {
		case e.ok && err != nil:
			v.Fail(v.t, "the API server accepts a WebApp of "+version.Version+" as the task has it: "+e.what,
				"it refuses it: "+err.Error())
		case !e.ok && err == nil:
			v.Fail(v.t, "the API server refuses a WebApp of "+version.Version+" that can't be meant: "+e.what,
				fmt.Sprintf("it accepts spec %v", spec))
		case e.ok && version == newer && spec["replicas"] == nil:
			if is, _, _ := unstructured.NestedInt64(created.Object, "spec", "replicas"); is != 1 {
				v.Fail(v.t, "a WebApp of "+version.Version+" without replicas has the default, spec.replicas: 1",
					fmt.Sprintf("it has spec %v", created.Object["spec"]))
			}
		}
	}
}
