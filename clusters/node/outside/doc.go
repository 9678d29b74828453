// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package outside lets Pods reach what the machine can reach: DNS names, and addresses other than those of Pods and
// Services. It lets nothing from outside reach Pods: package nodeports does that.
//
// The node's network is not connected to the machine's, because that would need root on the machine. But a process of
// the node may hold a socket of the machine. So the node's agent accepts the connections of Pods in place of their
// destinations, opens the same connections on the machine, and copies the bytes between the two:
//
//	Pod ──connect 93.184.215.14:443──► node: "all the world is me" ──► agent ──(machine's socket)──► 93.184.215.14:443
//
// It takes these parts:
//
//   - The node's default route makes every address the node's own (a local route, as for 127.0.0.0/8).
//   - A rule passes each such packet unchanged to the agent's socket: TPROXY, Linux' transparent proxy. The local
//     address of the accepted socket is the Pod's destination, so the agent need not record or request it. This works
//     for TCP and UDP.
//   - Pods send DNS queries to CoreDNS. CoreDNS forwards them to port 53 of the node, which forwards them to the
//     machine's resolver.
//
// A Pod can notice differences. A connection is accepted before it is known whether the destination listens, so
// "connection refused" becomes a reset a moment later. Protocols other than TCP and UDP are refused, so ping gets no
// answer. Where the machine reaches nothing, neither do Pods.
package outside
