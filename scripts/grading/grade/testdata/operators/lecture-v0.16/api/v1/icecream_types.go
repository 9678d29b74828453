// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IcecreamSpec defines the desired state of Icecream
type IcecreamSpec struct {
	Flavour []string `json:"flavour,omitempty"`

	//+kubebuilder:validation:MaxItems=3
	Topping []string `json:"topping,omitempty"`
}

// IcecreamStatus defines the observed state of Icecream
type IcecreamStatus struct {
	SoldOut       bool `json:"soldOut,omitempty"`
	ToppingsCount int  `json:"toppingsCount,omitempty"`
}

//+kubebuilder:object:root=true
//+kubebuilder:subresource:status
//+kubebuilder:resource:scope=Cluster
//+kubebuilder:printcolumn:name="SoldOut",type=boolean,JSONPath=`.status.soldOut`
//+kubebuilder:printcolumn:name="ToppingsCount",type=integer,JSONPath=`.status.toppingsCount`

// Icecream is the Schema for the icecreams API
type Icecream struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IcecreamSpec   `json:"spec,omitempty"`
	Status IcecreamStatus `json:"status,omitempty"`
}

//+kubebuilder:object:root=true

// IcecreamList contains a list of Icecream
type IcecreamList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Icecream `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Icecream{}, &IcecreamList{})
}
