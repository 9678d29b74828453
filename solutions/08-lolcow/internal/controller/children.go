// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"hash/fnv"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
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
	//lab:begin desired-deployment
	selector := selectorLabels(lolcow.Name)
	return appsv1ac.Deployment(lolcow.Name, lolcow.Namespace).
		WithLabels(selector).
		WithOwnerReferences(ownerReference(lolcow)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(selector).
				WithSpec(corev1ac.PodSpec().
					WithSecurityContext(corev1ac.PodSecurityContext().
						WithRunAsNonRoot(true).
						WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
					WithContainers(corev1ac.Container().
						WithName(containerName).
						WithImage(image).
						WithEnv(corev1ac.EnvVar().WithName("GREETING").WithValue(greeting(lolcow))).
						// A list whose items have keys is merged by them, so each key is stated, also where it is the default.
						WithPorts(corev1ac.ContainerPort().
							WithName(portName).WithContainerPort(8080).WithProtocol(corev1.ProtocolTCP)).
						// Without it a Pod counts as ready when its process has been started, and a rollout replaces pages that work. By
						// default the kubelet probes every 10 s: a Pod that misses the first probe would be unready for as long.
						WithReadinessProbe(corev1ac.Probe().
							WithPeriodSeconds(1).
							WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/healthz").WithPort(intstr.FromString(portName)))).
						WithSecurityContext(corev1ac.SecurityContext().
							WithAllowPrivilegeEscalation(false).
							WithReadOnlyRootFilesystem(true).
							WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))))))
	//lab:else
	// // TODO(lab): 1. the selector, the owner reference, and the template: image, port 8080, GREETING, labels.
	// return appsv1ac.Deployment(lolcow.Name, lolcow.Namespace).WithLabels(selectorLabels(lolcow.Name)).
	// 	WithSpec(appsv1ac.DeploymentSpec().
	// 		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(lolcow.Name))).
	// 		WithTemplate(corev1ac.PodTemplateSpec()))
	//lab:end
}

// desiredService has the fields of the Service that the operator sets: the page, on a port of every node.
func desiredService(lolcow *lolcowv1alpha1.Lolcow) *corev1ac.ServiceApplyConfiguration {
	selector := selectorLabels(lolcow.Name)
	//lab:begin desired-service
	return corev1ac.Service(lolcow.Name, lolcow.Namespace).
		WithLabels(selector).
		WithOwnerReferences(ownerReference(lolcow)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeNodePort).
			WithSelector(selector).
			WithPorts(corev1ac.ServicePort().
				WithName(portName).
				WithProtocol(corev1.ProtocolTCP).
				WithPort(80).
				// A number: a name would be that of the first container that has it, which may be a sidecar.
				WithTargetPort(intstr.FromInt32(8080)).
				WithNodePort(lolcow.Spec.Port)))
	//lab:else
	// // TODO(lab): 2. the owner reference, and a spec: type NodePort, selector, port 80 to the container's port,
	// // nodePort.
	// return corev1ac.Service(lolcow.Name, lolcow.Namespace).WithLabels(selector).
	// 	WithSpec(corev1ac.ServiceSpec().
	// 		WithPorts(corev1ac.ServicePort().WithPort(80).WithTargetPort(intstr.FromInt32(8080))))
	//lab:end
}

//lab:begin free-ports

// freeContainerPort removes a port that is in the way of ours. An apply finds a port by its number and protocol. When
// another client has changed one of these, it is another port to the apply, which would add ours with the same name.
// The API server would refuse that each time.
func freeContainerPort(deployment *appsv1.Deployment) {
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == containerName {
			containers[i].Ports = slices.DeleteFunc(containers[i].Ports, func(port corev1.ContainerPort) bool {
				return port.Name == portName && (port.ContainerPort != 8080 || port.Protocol != corev1.ProtocolTCP)
			})
		}
	}
}

// freeServicePort is freeContainerPort for the Service, where no two ports have the same node port either, and each
// needs a name if there are two. A Service has at least one port, so the one in the way gets back what identifies it.
func freeServicePort(service *corev1.Service, nodePort int32) {
	for _, port := range service.Spec.Ports {
		ours := port.Port == 80 && port.Protocol == corev1.ProtocolTCP
		if !ours && (port.Name == portName || port.Name == "" || port.NodePort == nodePort) {
			port.Name, port.Port, port.Protocol = portName, 80, corev1.ProtocolTCP
			service.Spec.Ports = []corev1.ServicePort{port}
			return
		}
	}
}

//lab:else
//lab:end

// ownerReference makes the Lolcow the controller of a child: the garbage collector deletes the child after it, and Owns
// finds it by the child. It holds the UID, so that a later Lolcow of the same name is another owner.
func ownerReference(lolcow *lolcowv1alpha1.Lolcow) *metav1ac.OwnerReferenceApplyConfiguration {
	kind := lolcowv1alpha1.GroupVersion.WithKind("Lolcow")
	//lab:begin owner-reference
	return metav1ac.OwnerReference().
		WithAPIVersion(kind.GroupVersion().String()).
		WithKind(kind.Kind).
		WithName(lolcow.Name).
		WithUID(lolcow.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
	//lab:else
	// // TODO(lab): 1. name, UID, controller, blockOwnerDeletion.
	// return metav1ac.OwnerReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind)
	//lab:end
}

// greeting is the text of the cow as the value of an environment variable, in which Kubernetes replaces $(NAME) by the
// variable NAME, and $$ by $.
func greeting(lolcow *lolcowv1alpha1.Lolcow) string {
	said := lolcow.Spec.Greeting
	//lab:begin greeting
	if said == "" {
		said = fortune(lolcow)
	}
	//lab:else
	// // TODO(lab): 3. without a greeting: a fortune.
	//lab:end
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
	//lab:begin fortune
	sum := fnv.New32a()
	sum.Write([]byte(lolcow.UID))
	return fortunes[sum.Sum32()%uint32(len(fortunes))]
	//lab:else
	// // TODO(lab): 3. one of them, which is always the same for this Lolcow, also after a restart. (What does fnv do?)
	// return fortunes[0]
	//lab:end
}

// ours reports whether a child has this Lolcow as its controller. An object with another controller, or none, is not
// ours, whatever its name.
func ours(lolcow *lolcowv1alpha1.Lolcow, child metav1.Object) bool {
	return metav1.IsControlledBy(child, lolcow)
}

// Cows selects the Pods of all Lolcows.
func Cows() labels.Selector { return labels.SelectorFromSet(labels.Set{nameLabel: lolcowName}) }
