// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The generated code expects these names.
var (
	// SchemeGroupVersion is the group and the version of all kinds here.
	SchemeGroupVersion = schema.GroupVersion{Group: "node.chrishein.com", Version: "v1alpha1"}
	schemeBuilder      = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the Go types of the kinds with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource is a resource of the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &AuthorizedKey{}, &AuthorizedKeyList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
