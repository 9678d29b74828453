// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package embedded runs a Kubernetes cluster as local processes of an ordinary user: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, all of them the one program of clusters/controlplane.
//
// Start creates a new cluster that ends with its owner, however that ends. Several can run side by side. A Playground
// survives between commands.
//
// Such a cluster has no node: Pods stay Pending, but everything that the API server and the controllers do is real.
// Local processes serve its Services, and package egress forwards the API server's connections to them. StartWithNode
// and UpWithNode give a cluster a node, on which Pods run (package node). Local processes still take precedence for
// their Services. StartServer and StartServerWithNode return as soon as the API server answers.
package embedded
