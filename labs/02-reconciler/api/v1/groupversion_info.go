// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 holds the types of the API demo.lva.io/v1. It knows nothing of the operator that serves them.
// +kubebuilder:object:generate=true
// +groupName=demo.lva.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the first line of every manifest: apiVersion: demo.lva.io/v1.
	GroupVersion = schema.GroupVersion{Group: "demo.lva.io", Version: "v1"}

	// SchemeBuilder collects the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the Go types of this API's kinds with a scheme, so that clients can encode and decode them.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Icecream{}, &IcecreamList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
