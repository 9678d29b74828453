// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cluster makes clients of the cluster's API server, for the few kinds that this program asks it about, and
// says which namespaces take new objects. It knows nothing else of what the clients are asked for.
package cluster
