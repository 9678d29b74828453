// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package clientgen generates the code that client-go needs for custom kinds: a clientset, listers and informers. It
// runs the programs of k8s.io/code-generator, and does for a module of kubebuilder's layout what kube_codegen.sh does.
// It does not build these programs, and generates no DeepCopy methods, which controller-gen does.
package clientgen
