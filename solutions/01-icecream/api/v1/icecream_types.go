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
	//lab:begin spec
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
	//lab:else
	// // TODO(lab): 2. The desired state: Flavour, a list of at least one string, in the JSON field flavour. And Topping,
	// // an optional list of at most three strings, in the JSON field topping. Neither list has duplicates. Say in a
	// // comment above each field what it means.
	//lab:end
}

// IcecreamStatus is what the operator has observed: the operator writes it, people read it.
type IcecreamStatus struct {
	//lab:begin status
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
	//lab:else
	// // TODO(lab): 3. The observed state: SoldOut, a boolean in soldOut. ToppingsCount, a whole number in toppingsCount.
	// // And Conditions, a list of metav1.Condition in conditions. All are optional, because at first nothing has been
	// // observed. Say in a comment above each field what it means.
	//lab:end
}

// +kubebuilder:object:root=true
//lab:begin resource
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
//lab:else
// // TODO(lab): 1. A marker: icecreams are cluster-scoped, they live in no namespace.
// // TODO(lab): 3. A marker: status is a subresource.
//lab:end
//lab:begin columns
// +kubebuilder:printcolumn:name="SoldOut",type=boolean,JSONPath=`.status.soldOut`
// +kubebuilder:printcolumn:name="ToppingsCount",type=integer,JSONPath=`.status.toppingsCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
//lab:else
// // TODO(lab): 4. Three markers: the print columns SoldOut, ToppingsCount and Age. Naming any column takes the place
// // of the usual Age, so it has to be named too.
//lab:end

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
