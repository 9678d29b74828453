// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controllers replaces sigs.k8s.io/mcs-api/controllers, of which Cilium needs only the name of one annotation.
// No Go module proxy has that module in the version that Cilium requires.
package controllers

// DerivedServiceAnnotation is set on a ServiceImport, and names the Service that was created for it (KEP-1645).
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
