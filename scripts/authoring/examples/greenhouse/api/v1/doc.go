// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 is the API of the toy kind Greenhouse, which lectures show. It does nothing: the parts of its operator are
// in package greenhouse.
//
// +kubebuilder:object:generate=true
// +groupName=play.lva.io
package v1
