// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package nodeports lets the machine's programs come to NodePorts and hostPorts: it listens on the machine's 127.0.0.1
// and passes on to the same port of the node. Where it leads from there, the rules of package services say.
//
// The node's network has no way to the machine's. The sockets that listen are made on the machine and given to the
// node's process, which then accepts connections of one network and makes those of the other: nobody needs root, and no
// interface connects the two.
package nodeports
