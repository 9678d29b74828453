// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The types of conditions that a WebApp has.
const (
	// Available: as many Pods as asked for are ready, and the Service leads to them.
	Available = "Available"
	// Degraded: something keeps the WebApp from being what its spec says, and the message names it.
	Degraded = "Degraded"
)

// WebAppSpec is the desired state of a WebApp: people write it, the operator reads it.
type WebAppSpec struct {
	// image is what the Pods run: a web server that listens on port 8080.
	// +required
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// nodePortNumber is the port of every node at which the web server answers. The cluster says which ports there are: by
	// default 30000 to 32767.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePortNumber int32 `json:"nodePortNumber,omitempty"`

	// replicas is the number of Pods. It is a pointer, since 0 is an answer too: no Pods.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebAppStatus is what the operator has observed: the operator writes it, people read it.
type WebAppStatus struct {
	// replicas is the number of Pods that there are. `kubectl scale` and an autoscaler read it.
	// +optional
	Replicas int32 `json:"replicas"`

	// selector selects these Pods, as text. An autoscaler asks for their metrics by it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// conditions say, one of each type, how the web app is doing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.nodePortNumber`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// WebApp is a web server: Pods that run an image, and a port of every node that leads to them.
type WebApp struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is what every object has: a name, labels, the time when it was created.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the WebApp.
	// +required
	Spec WebAppSpec `json:"spec"`

	// status is what the operator has observed.
	// +optional
	Status WebAppStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// WebAppList is the API server's answer to a list of WebApps.
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []WebApp `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &WebApp{}, &WebAppList{})
		return nil
	})
}
