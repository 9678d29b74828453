// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

// DefaultImage is the web server with the cow.
const DefaultImage = "operator-labs/lolcow:v1"

// The names that the parts of a child have for each other.
const (
	containerName = "lolcow"
	portName      = "http"
)

// The labels by which Pods are found. The second distinguishes the Pods of one Lolcow from those of another.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
	lolcowName    = "lolcow"
)

// selectorLabels select the Pods of a Lolcow. A Deployment's selector can never be changed, so nothing may be in here
// that can: no version, no greeting, no port.
func selectorLabels(name string) map[string]string {
	return map[string]string{nameLabel: lolcowName, instanceLabel: name}
}

// desiredDeployment has the fields of the Deployment that the operator sets, and so owns. It leaves out replicas, which
// belong to the user or autoscaler that scales it. It leaves out resources, which belong to the administrator of the
// cluster, or to a LimitRange.
func desiredDeployment(lolcow *lolcowv1alpha1.Lolcow, image string) *appsv1ac.DeploymentApplyConfiguration {
	// TODO(lab): 1. the selector, the owner reference, and the template: image, port 8080, GREETING, labels.
	return appsv1ac.Deployment(lolcow.Name, lolcow.Namespace).WithLabels(selectorLabels(lolcow.Name)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(lolcow.Name))).
			WithTemplate(corev1ac.PodTemplateSpec()))
}

// desiredService has the fields of the Service that the operator sets: the page, on a port of every node.
func desiredService(lolcow *lolcowv1alpha1.Lolcow) *corev1ac.ServiceApplyConfiguration {
	selector := selectorLabels(lolcow.Name)
	// TODO(lab): 2. the owner reference, and a spec: type NodePort, selector, port 80 to the container's port,
	// nodePort.
	return corev1ac.Service(lolcow.Name, lolcow.Namespace).WithLabels(selector).
		WithSpec(corev1ac.ServiceSpec().
			WithPorts(corev1ac.ServicePort().WithPort(80).WithTargetPort(intstr.FromInt32(8080))))
}

// ownerReference makes the Lolcow the controller of a child: the garbage collector deletes the child after it, and Owns
// finds it by the child. It holds the UID, so that a later Lolcow of the same name is another owner.
func ownerReference(lolcow *lolcowv1alpha1.Lolcow) *metav1ac.OwnerReferenceApplyConfiguration {
	kind := lolcowv1alpha1.GroupVersion.WithKind("Lolcow")
	// TODO(lab): 1. name, UID, controller, blockOwnerDeletion.
	return metav1ac.OwnerReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind)
}

// greeting is the text of the cow as the value of an environment variable, in which Kubernetes replaces $(NAME) by the
// variable NAME, and $$ by $.
func greeting(lolcow *lolcowv1alpha1.Lolcow) string {
	said := lolcow.Spec.Greeting
	// TODO(lab): 3. without a greeting: a fortune.
	return strings.ReplaceAll(said, "$", "$$")
}

// fortunes are the texts of cows without a greeting.
var fortunes = []string{
	"You will reconcile with an old acquaintance.",
	"A watch that is closed opens another one.",
	"What you delete today is garbage collected tomorrow.",
	"Today is a good day to be level-triggered.",
	"Somebody else owns the field that you graze on.",
	"Back off, and it will come to you.",
	"The cache is greener on the other side.",
	"You will soon be evicted to a better place.",
}

// fortune picks one by the Lolcow's UID. So it is the same after a restart of the operator, and no status has to
// remember it; if it were drawn, each call of Reconcile would roll out another one.
func fortune(lolcow *lolcowv1alpha1.Lolcow) string {
	// TODO(lab): 3. one of them, which is always the same for this Lolcow, also after a restart. (What does fnv do?)
	return fortunes[0]
}

// ours reports whether a child has this Lolcow as its controller. An object with another controller, or none, is not
// ours, whatever its name.
func ours(lolcow *lolcowv1alpha1.Lolcow, child metav1.Object) bool {
	return metav1.IsControlledBy(child, lolcow)
}

// Cows selects the Pods of all Lolcows.
func Cows() labels.Selector { return labels.SelectorFromSet(labels.Set{nameLabel: lolcowName}) }
