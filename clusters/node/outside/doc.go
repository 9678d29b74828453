// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package outside lets Pods reach what the machine reaches: names, and addresses that are neither a Pod's nor a
// Service's. Nothing of outside reaches Pods by it: package nodeports is for that.
//
// The node's network has no cable to the machine's, since to plug one in there takes root. But a socket of the machine
// may be held by a process of the node. So the node's agent accepts, in place of the whole world, what Pods connect to,
// makes the same connection on the machine, and carries the bytes from one to the other:
//
//		Pod ──connect 93.184.215.14:443──► node: "all the world is me" ──► agent ──(the machine's socket)──► 93.184.215.14:443
//
//	  - The node's default route says that every address is its own (a local route, as for 127.0.0.0/8).
//	  - A rule gives each such packet to the agent's socket, as it is: TPROXY, Linux' transparent proxy. The accepted socket has the address
//	    that the Pod wanted as its own, so nothing has to be remembered or asked for. It goes for TCP and UDP.
//	  - Names are asked by Pods of CoreDNS, by CoreDNS of the node at port 53, and there of the machine's resolver.
//
// What a Pod notices: a connection is accepted before it is known whether somebody is there, so that "connection
// refused" comes as a reset a moment later. Others than TCP and UDP are refused, so ping does not answer. Where the
// machine reaches nothing, nor do Pods.
package outside
