// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha1 holds the kind AuthorizedKey of the group node.chrishein.com. `make generate` reads the markers
// here: controller-gen makes the DeepCopy methods, and client-gen, lister-gen and informer-gen make what is in
// internal/generated.
//
// +kubebuilder:object:generate=true
// +groupName=node.chrishein.com
package v1alpha1
