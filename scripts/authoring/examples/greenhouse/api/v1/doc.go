// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 defines the API of the toy kind Greenhouse, which lectures show. It has no logic: the parts of the
// operator are in package greenhouse.
//
// +kubebuilder:object:generate=true
// +groupName=play.lva.io
package v1
