// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha1 defines the first version of the toy kind Lighthouse, and the conversion that lecture 9 shows.
//
// +kubebuilder:object:generate=true
// +groupName=sea.example.com
package v1alpha1
