// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OnlyChild is the only child of a kind that an owner has. wrong says what is there instead; what is the kind.
func OnlyChild[T any](o *Owners, of schema.GroupVersionResource, what string, owner *unstructured.Unstructured) (found T, wrong string) {
	all := Children[T](o, of, owner)
	if len(all) != 1 {
		return found, fmt.Sprintf("%s has %s", owner.GetName(), Counted(len(all), what))
	}
	return all[0], ""
}

// WrongService says why a Service does not lead from a node port to the Pods of a template; empty: it does. template is nil if it is not
// known where it should lead.
func WrongService(s *corev1.Service, nodePort int32, template *corev1.PodTemplateSpec) string {
	switch {
	case s.Spec.Type != corev1.ServiceTypeNodePort:
		return fmt.Sprintf("the Service %s is of type %s", s.Name, s.Spec.Type)
	case len(s.Spec.Ports) != 1:
		return fmt.Sprintf("the Service %s has %s", s.Name, Counted(len(s.Spec.Ports), "port"))
	case s.Spec.Ports[0].NodePort != nodePort:
		return fmt.Sprintf("the Service %s has the node port %d", s.Name, s.Spec.Ports[0].NodePort)
	case template != nil && (len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(template.Labels))):
		return fmt.Sprintf("the selector of the Service %s (%s) does not match the Pods of the Deployment (%s)", s.Name,
			labels.Set(s.Spec.Selector), labels.Set(template.Labels))
	}
	return ""
}

// Forbidden reports whether a Deployment tells that none of its Pods is let in: where a quota forbids Pods, nothing
// more changes in it then.
func Forbidden(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(is appsv1.DeploymentCondition) bool {
		return is.Type == appsv1.DeploymentReplicaFailure && is.Status == corev1.ConditionTrue
	})
}

// Overlap says which selector of an owner's children matches the Pods of another one's Deployment; empty: none.
func Overlap(owner string, service *corev1.Service, deployment *appsv1.Deployment, another string, other *appsv1.Deployment) (string, error) {
	pods := labels.Set(other.Spec.Template.Labels)
	if labels.SelectorFromSet(service.Spec.Selector).Matches(pods) {
		return fmt.Sprintf("the Service's selector %s does: visitors of %s come to %s as well", labels.Set(service.Spec.Selector), owner, another), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of the Deployment %s: %w", deployment.Name, err)
	}
	if selector.Matches(pods) {
		return fmt.Sprintf("the Deployment's selector %s does", selector), nil
	}
	return "", nil
}

// Counted is a number of things, as in a sentence: no Service, one Service, 2 Services.
func Counted(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
