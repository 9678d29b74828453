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
	// TODO(lab): 2. The desired state: Flavour, a list of at least one string, in the JSON field flavour. And Topping,
	// an optional list of at most three strings, in the JSON field topping. Neither list has duplicates. Say in a
	// comment above each field what it means.
}

// IcecreamStatus is what the operator has observed: the operator writes it, people read it.
type IcecreamStatus struct {
	// TODO(lab): 3. The observed state: SoldOut, a boolean in soldOut. ToppingsCount, a whole number in toppingsCount.
	// And Conditions, a list of metav1.Condition in conditions. All are optional, because at first nothing has been
	// observed. Say in a comment above each field what it means.
}

// +kubebuilder:object:root=true
// TODO(lab): 1. A marker: icecreams are cluster-scoped, they live in no namespace.
// TODO(lab): 3. A marker: status is a subresource.
// TODO(lab): 4. Three markers: the print columns SoldOut, ToppingsCount and Age. Naming any column takes the place
// of the usual Age, so it has to be named too.

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
