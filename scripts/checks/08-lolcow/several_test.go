// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// disjoint fails unless no selector of one cow matches Pods of the other.
func (v visit) disjoint(a, b *cow) {
	v.t.Helper()
	expected, overlap, err := workload.Apart(v.herd.selecting(a), v.herd.selecting(b))
	v.OK(v.t, "reading a selector", err)
	if overlap != "" {
		v.Fail(v.t, expected, overlap)
	}
}

// selecting returns the Service and the Deployment of a cow.
func (h *herd) selecting(c *cow) workload.Selecting {
	service, _ := h.service(c)
	deployment, _ := h.deployment(c)
	return workload.Selecting{Owner: c.Name, Service: &service, Deployment: &deployment}
}

func twoLolcows() types.Feature {
	return features.New("two Lolcows never meet").
		Assess("in one namespace", check.Assess(assess(func(v visit) {
			v.prepare()
			v.occupy() // for the check port-taken
			a, b := v.createInPaddock(), v.createInPaddock()
			v.asSpecified(a, b)
			v.disjoint(a, b)
			v.setGreeting(a, v.herd.drawGreeting())
			v.asSpecified(a, b)
			v.remove(a)
			v.Settle(v.ctx, v.t)
			v.asSpecified(b)
		}))).
		Assess("when one has the name of one that was there before", check.Assess(assess(func(v visit) {
			before := v.createInPaddock()
			deployment, _ := v.herd.deployment(before)
			service, _ := v.herd.service(before)
			v.remove(before)
			again := &cow{NamespacedName: before.NamespacedName, greeting: v.herd.drawGreeting(), port: v.herd.ports.Draw()}
			v.awaitGone(before)
			v.create(again)
			v.Settle(v.ctx, v.t)
			v.notAdopted(again, deployment.UID, service.UID)
			// The garbage collector deletes the children of the previous Lolcow. Then there is room for others.
			v.OK(v.t, "removing the children of the one before",
				v.herd.Collect(v.ctx, before.object, deployment.UID, service.UID))
			// The check deleted-child tests whether the operator notices that by itself.
			v.setGreeting(again, v.herd.drawGreeting())
			v.asSpecifiedWithin(healPatience, again)
		}))).Feature()
}

// notAdopted fails if children of an earlier Lolcow with the same name now belong to another one.
func (v visit) notAdopted(c *cow, born ...apitypes.UID) {
	v.t.Helper()
	deployment, _ := workload.Named[appsv1.Deployment](v.herd.Owners, workload.Deployments, c.NamespacedName)
	service, _ := workload.Named[corev1.Service](v.herd.Owners, workload.Services, c.NamespacedName)
	for what, child := range map[string]metav1.Object{"Deployment": &deployment, "Service": &service} {
		adopted := slices.ContainsFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID == c.object.GetUID()
		})
		if adopted && slices.Contains(born, child.GetUID()) {
			v.Fail(v.t, fmt.Sprintf("the %s %s belongs to an earlier Lolcow of that name, "+
				"with another UID, and is left alone", what, c.Name),
				"its metadata.ownerReferences have the new Lolcow: it was adopted")
		}
	}
}

func namespaces() types.Feature {
	return features.New("namespaces are apart").
		Assess("two Lolcows of one name", check.Assess(assess(func(v visit) {
			v.prepare()
			a := v.createInPaddock()
			b := v.herd.draw(stable)
			b.Name = a.Name
			v.create(b)
			v.asSpecified(a, b)
			v.remove(a)
			v.collect(a)
			v.Settle(v.ctx, v.t)
			v.asSpecified(b)
		}))).Feature()
}
