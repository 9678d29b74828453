// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API of the toy.
var GroupVersion = schema.GroupVersion{Group: "play.lva.io", Version: "v1"}

// AddToScheme registers the toy's kinds in a client's scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Greenhouse{}, &GreenhouseList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

//lab:begin types

// GreenhouseSpec is what the gardener wants.
// +kubebuilder:validation:XValidation:rule="self.minCelsius <= self.maxCelsius",message="minCelsius is above maxCelsius"
type GreenhouseSpec struct {
	// plants are the kinds of plants that grow here, each named once.
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=50
	// +optional
	Plants []string `json:"plants,omitempty"`
	// minCelsius is the temperature below which the heater is turned on.
	// +kubebuilder:validation:Minimum=-20
	MinCelsius int32 `json:"minCelsius"`
	// maxCelsius is the temperature above which the windows are opened.
	// +kubebuilder:validation:Maximum=50
	MaxCelsius int32 `json:"maxCelsius"`
}

// Greenhouse is one greenhouse, with its climate.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Min,type=integer,JSONPath=.spec.minCelsius
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type Greenhouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the gardener wants.
	Spec GreenhouseSpec `json:"spec"`
	// status is what the operator has seen.
	Status GreenhouseStatus `json:"status,omitempty"`
}

//lab:end

// GreenhouseStatus is what the operator has seen.
type GreenhouseStatus struct {
	// conditions say how far the operator has got.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GreenhouseList is a list of greenhouses.
// +kubebuilder:object:root=true
type GreenhouseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greenhouse `json:"items"`
}
