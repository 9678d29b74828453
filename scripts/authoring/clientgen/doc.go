// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package clientgen makes what client-go needs of kinds of one's own, by the programs of k8s.io/code-generator: a
// clientset, listers and informers. It does for a module of kubebuilder's layout what kube_codegen.sh does. It does not
// build these programs, and makes no DeepCopy methods: those are controller-gen's.
package clientgen
