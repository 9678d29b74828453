// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package services makes Services work: it is what kube-proxy is on other nodes. A Service is an address that no
// interface has. Somebody has to change it into that of a Pod, in each connection's first packet; the kernel does so,
// and this package tells it how.
//
//	Services, EndpointSlices ──watch──► Rules ──► plan ──diff──► nftables
//	 (the API server)                  (a pure function)        (the kernel: one table, changed atomically)
//
// It is three steps, each with a file of its own:
//
//   - plan.go: what the API's objects mean. It is a pure function from objects to Routes, and all that is to be decided
//     is decided there: which endpoints count, what a traffic policy means, who keeps to one Pod.
//   - kernel_linux.go: how the kernel is told, by netlink. It compares with what it has told before, and sends the
//     difference as a transaction. The rules themselves are in rules_linux.go.
//   - proxy_linux.go: when. Informers say that something has changed; then all of it is planned again.
//
// And drain_linux.go says when a Pod may end, since no connection comes to it any more.
//
// Nothing of this is on the way of a packet: a node whose agent has been killed still leads connections to Pods, by the
// rules that it has. What is connected stays connected, whatever becomes of the rules: the kernel remembers each
// connection (conntrack).
//
// Who listens on the machine's own 127.0.0.1 for NodePorts is package nodeports. NetworkPolicies are nobody's here.
package services
