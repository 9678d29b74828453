// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha1 holds the types of the API cloud.lva.io/v1alpha1. It knows nothing of the operator that serves them.
// +kubebuilder:object:generate=true
// +groupName=cloud.lva.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the first line of every manifest: apiVersion: cloud.lva.io/v1alpha1. Generated code asks for
	// this name.
	SchemeGroupVersion = schema.GroupVersion{Group: "cloud.lva.io", Version: "v1alpha1"}

	// GroupVersion is the name by which kubebuilder's projects know it.
	GroupVersion = SchemeGroupVersion

	// SchemeBuilder collects the types of this package: each kind's file registers its own.
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
		return nil
	})

	// AddToScheme registers the Go types of this API's kinds with a scheme, so that clients can encode and decode them.
	AddToScheme = SchemeBuilder.AddToScheme
)
