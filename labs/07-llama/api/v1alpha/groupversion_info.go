// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha holds the types of the API farm.example.com/v1alpha. It knows nothing of the server that serves them.
// The marker skip says that no CRD is made of them.
// +kubebuilder:object:generate=true
// +groupName=farm.example.com
// +kubebuilder:skip
package v1alpha

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the first line of every manifest: apiVersion: farm.example.com/v1alpha.
	GroupVersion = schema.GroupVersion{Group: "farm.example.com", Version: "v1alpha"}

	// SchemeBuilder collects the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the Go types of this API's kinds with a scheme, so that clients can encode and decode them.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Llama{}, &LlamaList{}, &FarmPod{}, &FarmPodList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
