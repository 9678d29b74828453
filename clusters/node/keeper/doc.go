// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package keeper keeps the containers of a node: it is their parent, writes their logs and knows how they ended. It is
// part of the node's first process, which lives as long as the node does, so that the program that decides what is run,
// the agent, can be ended and started again while containers go on. It decides nothing by itself.
//
//   - Serve answers at a Unix socket. One connection is one request (protocol_linux.go); what is read and written in a
//     container comes with it, as descriptors.
//   - A Client asks.
//   - The keeper is the first of its process namespace, and so also the parent of all orphans: it buries them
//     (reaper_linux.go).
package keeper
