// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package node adds a node to an embedded cluster, so that Pods run without Docker and without root. It starts the
// node, waits until it is Ready, and ends it. Programs of the node do the rest, each in a package below:
//
//	on the machine │ in the node's namespaces
//	───────────────┼──────────────────────────────────────────────────────────────────────────────────
//	init (host) ───┼─► init (first process): package keeper keeps the containers
//	  package      │     ├── agent: packages cri, rootfs, podnet, services, nodeports, outside
//	  namespace    │     ├── kubelet: Kubernetes' own, package kubelet
//	               │     └── containers: package container
//
// Package targets describes how to build these programs.
//
// The namespaces end with their first process. That process ends with the one on the machine, which ends with the scope
// of the cluster (package process). So nothing is left of a node, however it ends.
//
// On a machine that allows no namespaces there can be no node. The error is then an *Unavailable, which has the reason
// and the remedy.
package node
