// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IcecreamSpec defines the desired state of Icecream
type IcecreamSpec struct {
	// flavour lists what it tastes of
	// +kubebuilder:validation:MinItems=1
	// +listType=set
	Flavour []string `json:"flavour"`

	// topping lists what goes on top
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Topping []string `json:"topping,omitempty"`

	// cone has the labels and annotations of what the icecream is served in
	// +optional
	Cone ConeTemplate `json:"cone,omitzero"`
}

// ConeTemplate describes a cone
type ConeTemplate struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// IcecreamStatus defines the observed state of Icecream.
type IcecreamStatus struct {
	// soldOut says that there is no more of one of its flavours
	// +optional
	SoldOut bool `json:"soldOut"`

	// toppingsCount is how many toppings it has
	// +optional
	ToppingsCount int32 `json:"toppingsCount"`

	// conditions represent the current state of the Icecream resource.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="SoldOut",type="boolean",JSONPath=".status.soldOut"
// +kubebuilder:printcolumn:name="ToppingsCount",type="integer",JSONPath=".status.toppingsCount"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// Icecream is the Schema for the icecreams API
type Icecream struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is a standard object metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec defines the desired state of Icecream
	// +required
	Spec IcecreamSpec `json:"spec"`

	// status defines the observed state of Icecream
	// +optional
	Status IcecreamStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// IcecreamList contains a list of Icecream
type IcecreamList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Icecream `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Icecream{}, &IcecreamList{})
}
