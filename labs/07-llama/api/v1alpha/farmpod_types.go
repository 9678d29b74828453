// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FarmPodContainer is what the farm tells of a container.
type FarmPodContainer struct {
	// Name of the container, unique in its Pod.
	Name string `json:"name"`
	// Image that the container runs.
	Image string `json:"image"`
}

// SwaggerDoc is what `kubectl explain farmpod.spec.containers` shows.
func (FarmPodContainer) SwaggerDoc() map[string]string {
	return map[string]string{
		"":      "FarmPodContainer is what the farm tells of a container.",
		"name":  "Name of the container, unique in its Pod.",
		"image": "Image that the container runs.",
	}
}

// FarmPodSpec is what the farm tells of a Pod.
type FarmPodSpec struct {
	// Containers of the Pod, in its order.
	Containers []FarmPodContainer `json:"containers"`
}

// SwaggerDoc is what `kubectl explain farmpod.spec` shows.
func (FarmPodSpec) SwaggerDoc() map[string]string {
	return map[string]string{
		"":           "FarmPodSpec is what the farm tells of a Pod.",
		"containers": "Containers of the Pod, in its order.",
	}
}

// FarmPod is a Pod of the cluster as the farm sees it: farm-NAME for the Pod NAME. It is never stored.
// +kubebuilder:object:root=true
type FarmPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FarmPodSpec `json:"spec"`
}

// SwaggerDoc is what `kubectl explain farmpod` shows.
func (FarmPod) SwaggerDoc() map[string]string {
	return map[string]string{
		"":         "FarmPod is a Pod of the cluster as the farm sees it. It can only be read.",
		"metadata": "Standard object metadata.",
		"spec":     "What the farm tells of the Pod.",
	}
}

// FarmPodList is several FarmPods.
// +kubebuilder:object:root=true
type FarmPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FarmPod `json:"items"`
}

// SwaggerDoc describes the list in OpenAPI.
func (FarmPodList) SwaggerDoc() map[string]string {
	return map[string]string{
		"":         "FarmPodList is several FarmPods.",
		"metadata": "Standard list metadata.",
		"items":    "The FarmPods.",
	}
}
