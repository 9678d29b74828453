// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LolcowSpec defines the desired state of Lolcow
type LolcowSpec struct {
	Greeting string `json:"greeting,omitempty"`
	Port     int32  `json:"port,omitempty"`
}

// LolcowStatus defines the observed state of Lolcow
type LolcowStatus struct {
}

//+kubebuilder:object:root=true
//+kubebuilder:subresource:status

// Lolcow is the Schema for the lolcows API
type Lolcow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LolcowSpec   `json:"spec,omitempty"`
	Status LolcowStatus `json:"status,omitempty"`
}

//+kubebuilder:object:root=true

// LolcowList contains a list of Lolcow
type LolcowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Lolcow `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Lolcow{}, &LolcowList{})
}
