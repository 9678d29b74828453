// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

const (
	containerName = "web"
	portName      = "http"
	// containerPort is where the web server of every image has to listen.
	containerPort = 8080
)

// selectorLabels select the Pods of a WebApp, and no others: the name is that of one WebApp in its namespace. A
// Deployment's selector can never be changed, so nothing may be in here that can: no image, no port.
func selectorLabels(name string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": name}
}

// setDeployment sets the fields of the Deployment that follow from the spec of the WebApp. It does not touch any
// others: annotations, labels and sidecars of other users, and the API server's defaults. So a Deployment that is right
// is not changed.
func setDeployment(deployment *appsv1.Deployment, app *appsv1beta1.WebApp) {
	setLabels(deployment, app.Name)
	// It can be set when the Deployment is created, and never again.
	if deployment.Spec.Selector == nil {
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: selectorLabels(app.Name)}
	}
	// An autoscaler changes the WebApp's replicas, by its scale subresource, and not the Deployment's.
	deployment.Spec.Replicas = new(replicas(app))
	template := &deployment.Spec.Template
	setLabels(template, app.Name)
	i := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		i = len(template.Spec.Containers)
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: containerName})
	}
	template.Spec.Containers[i].Image = app.Spec.Image
	template.Spec.Containers[i].Ports = []corev1.ContainerPort{{
		Name: portName, ContainerPort: containerPort, Protocol: corev1.ProtocolTCP,
	}}
}

// setService is setDeployment for the Service: the web server, on a port of every node. Each field of the port is set,
// also where it is the default, so that the list equals the one that the API server returns. The target is a number: a
// name would be that of the first container that has it, which may be a sidecar.
func setService(service *corev1.Service, app *appsv1beta1.WebApp) {
	setLabels(service, app.Name)
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Spec.Selector = selectorLabels(app.Name)
	service.Spec.Ports = []corev1.ServicePort{{
		Name: portName, Protocol: corev1.ProtocolTCP,
		Port: 80, TargetPort: intstr.FromInt32(containerPort), NodePort: app.Spec.Port,
	}}
}

func setLabels(object metav1.Object, name string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, selectorLabels(name))
	object.SetLabels(labels)
}

// replicas is the desired number of Pods. The API server fills in the default, but not in objects that it stored before
// the default was in the CRD.
func replicas(app *appsv1beta1.WebApp) int32 {
	if app.Spec.Replicas == nil {
		return 1
	}
	return *app.Spec.Replicas
}

// isAvailable reports whether the Pods of a Deployment are the wanted ones, as far as its controller has seen it: all
// of them run what the Deployment says now, and are ready. A Pod of the earlier template that is still there is counted
// as available, too, so the Deployment must have no more Pods than the updated ones.
func isAvailable(deployment *appsv1.Deployment, want int32) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation &&
		status.Replicas == want && status.UpdatedReplicas == want && status.AvailableReplicas == want
}
