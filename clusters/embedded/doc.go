// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package embedded runs a Kubernetes cluster as local processes of an ordinary user: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, all of them the one program of clusters/controlplane.
//
// Start gives a fresh cluster that goes when its owner goes, whatever ends it; several run side by side. Playground is
// the one that survives between commands.
//
// Such a cluster has no node: Pods stay Pending, everything that the API server and the controllers do is real. Who
// serves a Service is a local process, to which package egress leads the API server. StartWithNode and UpWithNode give
// a cluster a node, on which Pods run (package node); who serves a Service locally still comes first. StartServer and
// StartServerWithNode return as soon as the API server answers.
package embedded
