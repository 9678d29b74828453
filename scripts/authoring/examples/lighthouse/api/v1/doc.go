// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 has the toy kind Lighthouse in the version that is stored.
//
// +kubebuilder:object:generate=true
// +groupName=sea.example.com
package v1
