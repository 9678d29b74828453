// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package services implements Services on the node, as kube-proxy does on other nodes. No interface has the address of
// a Service. The kernel replaces it with the address of a Pod in the first packet of each connection, by rules that
// this package writes.
//
//	Services, EndpointSlices ──watch──► Rules ──► plan ──diff──► nftables
//	 (the API server)                  (a pure function)        (the kernel: one table, changed atomically)
//
// There are three steps, each with a file of its own:
//
//   - plan.go computes Routes from the API's objects, in a pure function. All decisions are made there: which endpoints
//     are used, what a traffic policy means, which clients always use the same Pod.
//   - kernel_linux.go updates the kernel, by netlink. It compares the rules with those that it sent before, and sends
//     the difference as a transaction. The rules themselves are in rules_linux.go.
//   - proxy_linux.go decides when. Informers report each change, and the whole plan is then computed again.
//
// drain_linux.go decides when a Pod may end, because no new connection can reach it.
//
// No packet passes through this code: a node whose agent was killed still routes connections to Pods, by the rules that
// the kernel has. An open connection stays open even if the rules change, because the kernel tracks each connection
// (conntrack).
//
// Package nodeports listens for NodePorts on the machine's own 127.0.0.1. Nothing implements NetworkPolicies here.
package services
