// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The comment above a field is its documentation in `kubectl explain`, so it begins with the field's name in JSON. The
// markers below it (`+...`) become rules in the CRD: the API server rejects what breaks one, and says which, before any
// operator sees it.

// IcecreamSpec is the desired state of an icecream: people write it, the operator reads it.
type IcecreamSpec struct {
	// flavour lists the scoops, for example vanilla and matcha: at least one, and none twice.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MinLength=1
	Flavour []string `json:"flavour,omitempty"`

	// topping lists what goes on top, for example cream: at most three, and none twice.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MinLength=1
	Topping []string `json:"topping,omitempty"`
}

// IcecreamStatus is what the operator has observed: the operator writes it, people read it.
type IcecreamStatus struct {
	// The next two are pointers because false and 0 are observations, too, and differ from "not observed yet". With a
	// plain bool and omitempty, a false would never appear in the status.

	// soldOut is true when no place is left in one of the flavours. It is missing until the operator has looked.
	// +optional
	SoldOut *bool `json:"soldOut,omitempty"`

	// toppingsCount is the number of toppings. It is missing until the operator has counted them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ToppingsCount *int32 `json:"toppingsCount,omitempty"`

	// conditions say in detail, one of each type, how the icecream is doing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="SoldOut",type=boolean,JSONPath=`.status.soldOut`
// +kubebuilder:printcolumn:name="ToppingsCount",type=integer,JSONPath=`.status.toppingsCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Icecream is one icecream in the shop: its flavours, its toppings, and whether there is more.
type Icecream struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is what every object has: a name, labels, the time when it was created.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the icecream.
	// +required
	Spec IcecreamSpec `json:"spec"`

	// status is what the operator has observed.
	// +optional
	Status IcecreamStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// IcecreamList is the API server's answer to a list of icecreams.
type IcecreamList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Icecream `json:"items"`
}
