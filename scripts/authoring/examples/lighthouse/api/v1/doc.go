// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 defines the stored version of the toy kind Lighthouse.
//
// +kubebuilder:object:generate=true
// +groupName=sea.example.com
package v1
