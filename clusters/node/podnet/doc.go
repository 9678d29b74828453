// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package podnet gives each Pod a network of its own: a network namespace with one interface and one address, and a
// cable to the node. It knows nothing of containers, and nothing of Services, which package services puts on top.
//
//	 Pod's namespace                                node's namespace
//	┌─────────────────────────────┐               ┌────────────────────────────────────┐
//	│ lo    127.0.0.1             │               │ lo  127.0.0.1, 10.244.0.1          │
//	│ eth0  10.244.0.5/32 ◄───────┼── veth pair ──┼──► pod0-5                          │
//	│ default via 10.244.0.1      │               │ 10.244.0.5 dev pod0-5              │
//	└─────────────────────────────┘               │ 10.244.0.6 dev pod0-6              │
//	                                              └────────────────────────────────────┘
//
// A veth pair is a cable with two ends: what goes in at one end comes out at the other. There is no bridge, which is a
// switch in software: each Pod has a network of one address, and whatever leaves it is routed by the node. That is how
// the kernel sees each packet between two Pods, and why the rules of Services hold for all of them.
//
// All of it is kept by the kernel alone. An agent that starts again finds its Pods by looking at the interfaces.
//
// Whoever calls has to be in the node's network namespace, and to have CAP_NET_ADMIN there, which an ordinary user has
// in a user namespace of theirs.
package podnet
