// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controllers stands in for sigs.k8s.io/mcs-api/controllers, of which Cilium needs the name of one annotation.
// The module of that name can't be had from a Go module proxy in the version that Cilium requires.
package controllers

// DerivedServiceAnnotation is set on a ServiceImport and names the Service that was made for it (KEP-1645).
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
