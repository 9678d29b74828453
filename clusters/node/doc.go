// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package node gives an embedded cluster a node: Pods run, without Docker and without root. It starts the node, waits
// until it is Ready, and ends it; the rest is done by programs of the node's own, each in a package below:
//
//	on the machine │ in the node's namespaces
//	───────────────┼──────────────────────────────────────────────────────────────────────────────────
//	init (host) ───┼─► init (first process): package keeper keeps the containers
//	  package      │     ├── agent: packages cri, rootfs, podnet, services, nodeports, outside
//	  namespace    │     ├── kubelet: Kubernetes' own, package kubelet
//	               │     └── containers: package container
//
// How these programs are built is in package targets.
//
// What ends with what: the namespaces end with their first process, that with the one on the machine, and that with the
// scope of the cluster (package process). So nothing is left of a node, whatever ends it.
//
// Where no namespaces can be had there is no node: the error is an *Unavailable, which says why and what to do.
package node
