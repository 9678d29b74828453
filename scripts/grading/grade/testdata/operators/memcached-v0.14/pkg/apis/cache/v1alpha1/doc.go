// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1alpha1 contains API Schema definitions for the cache v1alpha1 API group
// +k8s:deepcopy-gen=package,register
// +groupName=cache.example.com
package v1alpha1
