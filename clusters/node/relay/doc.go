// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package relay copies data between two sockets that are in different networks: the bytes of connections, and
// datagrams. It opens no connections itself, and does not inspect the data. Its function Each is the loop in which all
// programs of a node accept connections.
package relay
