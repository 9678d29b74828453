// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IcecreamSpec is what a guest orders
type IcecreamSpec struct {
	// Flavour lists what it tastes of
	// +kubebuilder:validation:MinItems=1
	// +listType=set
	Flavour []string `json:"flavour"`

	// Topping lists what goes on top
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Topping []string `json:"topping,omitempty"`
}

// IcecreamStatus is what was found out about it
type IcecreamStatus struct {
	// SoldOut says that there is no more of one of its flavours
	SoldOut bool `json:"soldOut,omitempty"`

	// ToppingsCount is how many toppings it has
	ToppingsCount int32 `json:"toppingsCount,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="SoldOut",type="boolean",JSONPath=".status.soldOut"
// +kubebuilder:printcolumn:name="ToppingsCount",type="integer",JSONPath=".status.toppingsCount"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// Icecream is one icecream
type Icecream struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IcecreamSpec   `json:"spec"`
	Status IcecreamStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// IcecreamList is a list of icecreams
type IcecreamList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Icecream `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Icecream{}, &IcecreamList{})
}
