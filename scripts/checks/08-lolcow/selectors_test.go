// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func selectors() types.Feature {
	return features.New("selectors never change").
		Assess("when the greeting and the port do", check.Assess(assess(func(v visit) {
			v.prepare()
			c := v.createInPaddock()
			before, _ := v.herd.deployment(c)
			page, _ := v.herd.service(c)
			v.byBothLabels(c, &before, &page)
			for range 2 {
				v.setGreeting(c, v.herd.drawGreeting())
				v.setPort(c, v.herd.ports.Draw())
				v.asSpecified(c)
			}
			v.Settle(v.ctx, v.t)
			v.asSpecified(c)
			after, _ := v.herd.deployment(c)
			pageAfter, _ := v.herd.service(c)
			const expected = "greeting and port change, and the Deployment stays the same object, with the same selector; " +
				"the Service selects the same Pods"
			switch {
			case after.UID != before.UID:
				v.Fail(v.t, expected, "the Deployment was deleted and made again: all its Pods ended at once")
			case !reflect.DeepEqual(after.Spec.Selector, before.Spec.Selector):
				v.Fail(v.t, expected, "the selector of the Deployment was changed")
			case !reflect.DeepEqual(page.Spec.Selector, pageAfter.Spec.Selector):
				v.Fail(v.t, expected, fmt.Sprintf("the selector of the Service was changed from %s to %s: "+
					"until the rollout is done it selects no Pod, or one of the wrong version",
					labels.Set(page.Spec.Selector), labels.Set(pageAfter.Spec.Selector)))
			}
		}))).Feature()
}

// These labels select the Pods of a Lolcow.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
)

// podLabels returns the labels of the Pods of a cow.
func (c *cow) podLabels() map[string]string {
	return map[string]string{nameLabel: "lolcow", instanceLabel: c.Name}
}

// byBothLabels fails unless the Pods of a cow have both labels, and each selector requires both. With only one, Pods of
// other applications would be selected as well.
func (v visit) byBothLabels(c *cow, deployment *appsv1.Deployment, service *corev1.Service) {
	v.t.Helper()
	expected := fmt.Sprintf("the labels %s select the Pods of %s: in the template and in both selectors",
		labels.Set(c.podLabels()), c.Name)
	for what, has := range map[string]map[string]string{
		"the template of the Deployment": deployment.Spec.Template.Labels,
		"the selector of the Deployment": deployment.Spec.Selector.MatchLabels,
		"the selector of the Service":    service.Spec.Selector,
	} {
		for name, value := range c.podLabels() {
			if has[name] != value {
				v.Fail(v.t, expected, fmt.Sprintf("%s has %s", what, labels.Set(has)))
			}
		}
	}
}
