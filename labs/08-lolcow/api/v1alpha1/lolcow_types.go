// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of the conditions in a Lolcow's status.
const (
	// Available is True when the page is served on spec.port.
	Available = "Available"
	// Progressing is True while a change is being rolled out, and False when that is over.
	Progressing = "Progressing"
	// Degraded is True when something is wrong that a person has to look at. Its reason and message say what.
	Degraded = "Degraded"
)

// LolcowSpec is the desired state of a Lolcow: people write it, the operator reads it.
type LolcowSpec struct {
	// greeting is what the cow says. Without one it tells a fortune, always the same.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Greeting string `json:"greeting,omitempty"`

	// The range of node ports is a setting of each API server, so that the schema can't state it: only what can be no port
	// at all is rejected here. The rest is the operator's to report.

	// port is the port of the nodes on which the page is served, by default one of 30000 to 32767.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// LolcowStatus is what the operator has observed: the operator writes it, people read it.
type LolcowStatus struct {
	// conditions say how the Lolcow is doing: Available, Progressing and Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Lolcow is a cow on a web page that says something.
type Lolcow struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is what every object has: a name, labels, the time when it was created.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the Lolcow.
	// +required
	Spec LolcowSpec `json:"spec"`

	// status is what the operator has observed.
	// +optional
	Status LolcowStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// LolcowList is the API server's answer to a list of Lolcows.
type LolcowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Lolcow `json:"items"`
}
