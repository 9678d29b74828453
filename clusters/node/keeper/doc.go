// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package keeper keeps the containers of a node: it is their parent, writes their logs and records how they ended. It
// is part of the node's first process, which lives as long as the node does. So the agent, which decides what is run,
// can be restarted while containers continue to run. The keeper decides nothing by itself.
//
//   - Serve answers at a Unix socket. Each connection carries one request (protocol_linux.go), with the standard
//     streams of a container as descriptors.
//   - A Client sends requests.
//   - The keeper is the first process of its PID namespace, and so also the parent of all orphans. It reaps them
//     (reaper_linux.go).
package keeper
