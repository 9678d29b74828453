// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IcecreamSpec is what is ordered
type IcecreamSpec struct {
	// Flavour is what the icecream tastes of
	// +optional
	Flavour []string `json:"flavour,omitempty"`

	// Topping is what goes on top
	// +optional
	// +kubebuilder:validation:MaxItems=3
	Topping []string `json:"topping,omitempty"`
}

// IcecreamStatus is what the operator found out
type IcecreamStatus struct {
	SoldOut       bool `json:"soldOut"`
	ToppingsCount int  `json:"toppingsCount"`
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

	Spec   IcecreamSpec   `json:"spec,omitempty"`
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
