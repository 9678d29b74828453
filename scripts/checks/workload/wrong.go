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

// OnlyChild returns the only child of a kind that an owner has. wrong describes what exists instead. what names the
// kind.
func OnlyChild[T any](
	o *Owners, resource schema.GroupVersionResource, what string, owner *unstructured.Unstructured,
) (found T, wrong string) {
	all := Children[T](o, resource, owner)
	if len(all) != 1 {
		return found, fmt.Sprintf("%s has %s", owner.GetName(), Counted(len(all), what))
	}
	return all[0], ""
}

// WrongService returns why a Service does not route from a node port to the Pods of a template. Empty: it does.
// template is nil if the expected Pods are unknown.
func WrongService(s *corev1.Service, nodePort int32, template *corev1.PodTemplateSpec) string {
	switch {
	case s.Spec.Type != corev1.ServiceTypeNodePort:
		return fmt.Sprintf("the Service %s is of type %s", s.Name, s.Spec.Type)
	case len(s.Spec.Ports) != 1:
		return fmt.Sprintf("the Service %s has %s", s.Name, Counted(len(s.Spec.Ports), "port"))
	case s.Spec.Ports[0].NodePort != nodePort:
		return fmt.Sprintf("the Service %s has the node port %d", s.Name, s.Spec.Ports[0].NodePort)
	case template != nil &&
		(len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(template.Labels))):
		return fmt.Sprintf("the selector of the Service %s (%s) does not match the Pods of the Deployment (%s)", s.Name,
			labels.Set(s.Spec.Selector), labels.Set(template.Labels))
	}
	return ""
}

// Forbidden reports whether the status of a Deployment reports that its Pods are rejected, and is about the current
// spec. If a quota forbids Pods, the Deployment no longer changes after that.
func Forbidden(d *appsv1.Deployment) bool {
	rejected := func(is appsv1.DeploymentCondition) bool {
		return is.Type == appsv1.DeploymentReplicaFailure && is.Status == corev1.ConditionTrue
	}
	return d.Status.ObservedGeneration >= d.Generation && slices.ContainsFunc(d.Status.Conditions, rejected)
}

// Selecting holds the children of one owner that select Pods.
type Selecting struct {
	Owner      string
	Service    *corev1.Service
	Deployment *appsv1.Deployment
}

// Apart describes the selector of the children of one owner that matches Pods of the other owner's Deployment,
// whichever of the two owners that is, and what was expected instead. It is empty if there is none.
func Apart(a, b Selecting) (expected, overlap string, err error) {
	if overlap, err = a.overlap(b); err == nil && overlap == "" {
		a, b = b, a
		overlap, err = a.overlap(b)
	}
	return fmt.Sprintf("no selector of %s matches Pods of %s", a.Owner, b.Owner), overlap, err
}

// overlap returns which selector matches the Pods of another owner's Deployment. Empty: none.
func (c Selecting) overlap(other Selecting) (string, error) {
	pods := labels.Set(other.Deployment.Spec.Template.Labels)
	if visitors := labels.Set(c.Service.Spec.Selector); labels.SelectorFromSet(visitors).Matches(pods) {
		return fmt.Sprintf("the Service's selector %s does: visitors of %s come to %s as well",
			visitors, c.Owner, other.Owner), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Deployment.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of the Deployment %s: %w", c.Deployment.Name, err)
	}
	if selector.Matches(pods) {
		return fmt.Sprintf("the Deployment's selector %s does", selector), nil
	}
	return "", nil
}

// Counted formats a number of things for a sentence: no Service, one Service, 2 Services.
func Counted(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
