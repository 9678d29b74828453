// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package podnet gives each Pod a network of its own: a network namespace with one interface and one address, and a
// veth pair to the node. It knows nothing of containers, or of Services, which package services adds.
//
//	 Pod's namespace                                node's namespace
//	┌─────────────────────────────┐               ┌────────────────────────────────────┐
//	│ lo    127.0.0.1             │               │ lo  127.0.0.1, 10.244.0.1          │
//	│ eth0  10.244.0.5/32 ◄───────┼── veth pair ──┼──► pod0-5                          │
//	│ default via 10.244.0.1      │               │ 10.244.0.5 dev pod0-5              │
//	└─────────────────────────────┘               │ 10.244.0.6 dev pod0-6              │
//	                                              └────────────────────────────────────┘
//
// A veth pair is a virtual cable: a packet that enters at one end leaves at the other. There is no bridge, which is a
// switch in software: each Pod has a network of one address, and the node routes every packet that leaves it. So the
// kernel sees each packet between two Pods, and the rules of Services apply to all of them.
//
// Only the kernel keeps this state. An agent that restarts finds its Pods by listing the interfaces.
//
// The caller must be in the node's network namespace, and must have CAP_NET_ADMIN there, which an ordinary user has in
// a user namespace of their own.
package podnet
