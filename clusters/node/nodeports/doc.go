// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package nodeports makes NodePorts and hostPorts available to programs of the machine. It listens on the machine's
// 127.0.0.1 and forwards each connection to the same port of the node. From there, the rules of package services
// determine where it is routed.
//
// The node's network has no route to the machine's. The machine creates the listening sockets and passes them to the
// node's process, which accepts connections of one network and opens those of the other. This needs no root, and no
// interface connects the two.
package nodeports
