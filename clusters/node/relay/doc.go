// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package relay carries what is said between two sockets that are in different networks: bytes of connections, and
// datagrams. It makes no connection itself, and looks at nothing that it carries. Each is the loop by which all
// programs of a node accept connections.
package relay
