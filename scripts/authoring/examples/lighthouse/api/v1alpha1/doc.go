// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha1 has the toy kind Lighthouse in its first version, and the conversion that lecture 9 shows.
//
// +kubebuilder:object:generate=true
// +groupName=sea.example.com
package v1alpha1
