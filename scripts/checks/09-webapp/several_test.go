// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// disjoint fails unless no selector of one WebApp matches Pods of the other.
func (v visit) disjoint(a, b *app) {
	v.t.Helper()
	expected, overlap, err := workload.Apart(v.town.selecting(a), v.town.selecting(b))
	v.OK(v.t, "reading a selector", err)
	if overlap != "" {
		v.Fail(v.t, expected, overlap)
	}
}

// selecting returns the Service and the Deployment of one of them.
func (t *town) selecting(a *app) workload.Selecting {
	service, _ := t.service(a)
	deployment, _ := t.deployment(a)
	return workload.Selecting{Owner: a.Name, Service: &service, Deployment: &deployment}
}

// longestName is the maximum length of a Service's name.
const longestName = 63

func twoWebApps() frameworktypes.Feature {
	return features.New("two WebApps never meet").
		Assess("in one namespace, and of one name in two", check.Assess(assess(func(v visit) {
			a, b, c := v.town.draw(plans), v.town.draw(plans), v.town.draw(suburb)
			b.image, b.Name, c.Name = a.image, a.Name+"-b", a.Name
			for _, one := range []*app{a, b, c} {
				v.create(one)
			}
			// These are names of the maximum length for Services, which differ at their end.
			long, longer := v.town.draw(plans), v.town.draw(plans)
			stem := a.Name + "-" + strings.Repeat("x", longestName-len(a.Name)-len("-")-len("a"))
			long.Name, longer.Name, longer.image = stem+"a", stem+"b", long.image
			v.create(long)
			v.create(longer)
			v.asSpecified(a, b, c, long, longer)
			v.disjoint(a, b)
			v.disjoint(long, longer)
			v.setPort(a, v.town.ports.Draw())
			v.asSpecified(a, b, c)
			v.remove(a)
			v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, a.object))
			v.Settle(v.ctx, v.t)
			v.asSpecified(b, c)
		}))).
		Assess("also when many change at once", check.Assess(assess(many))).Feature()
}

// crowd is how many WebApps are created and changed at once.
const crowd = 8

// many creates WebApps, and changes all of them, concurrently. No child may ever have values from the spec of another
// WebApp, not even for a moment.
func many(v visit) {
	deployments, services := v.record(workload.Deployments, plans), v.record(workload.Services, plans)
	var apps []*app
	images, ports := map[string]string{}, map[int64]string{} // the WebApp that each belongs to
	note := func(a *app) { images[a.image], ports[int64(a.port)] = a.Name, a.Name }
	for range crowd {
		a := v.town.draw(plans)
		a.image += "-" + a.Name // the image of one WebApp only
		note(a)
		apps = append(apps, v.create(a))
	}
	v.asSpecified(apps...)
	for _, a := range apps {
		a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage()+"-"+a.Name, v.town.ports.Draw()
		note(a)
		v.set(a)
	}
	v.asSpecified(apps...)
	v.Settle(v.ctx, v.t)
	const expected = "no child ever has what the spec of another WebApp says, " +
		"while %d WebApps are created and changed at once"
	for _, state := range services.States() {
		listed, _, _ := unstructured.NestedSlice(state.Object, "spec", "ports")
		for _, port := range listed {
			nodePort, _ := port.(map[string]any)["nodePort"].(int64)
			if name := ports[nodePort]; name != "" && name != state.GetName() {
				v.Fail(v.t, fmt.Sprintf(expected, crowd),
					fmt.Sprintf("for a moment the Service %s had the node port %d, which is that of %s",
						state.GetName(), nodePort, name))
			}
		}
	}
	for _, state := range deployments.States() {
		containers, _, _ := unstructured.NestedSlice(state.Object, "spec", "template", "spec", "containers")
		for _, container := range containers {
			image, _ := container.(map[string]any)["image"].(string)
			if name := images[image]; name != "" && name != state.GetName() {
				v.Fail(v.t, fmt.Sprintf(expected, crowd),
					fmt.Sprintf("for a moment the Deployment %s had the image %s, which is that of %s", state.GetName(), image, name))
			}
		}
	}
}

// record records every state of the children of one kind in a namespace, until the check ends.
func (v visit) record(resource schema.GroupVersionResource, namespace string) *workload.Recording {
	v.t.Helper()
	recording, err := v.town.RecordChildren(v.ctx, resource, namespace)
	v.OK(v.t, "recording "+resource.Resource, err)
	v.t.Cleanup(recording.Stop)
	return recording
}
