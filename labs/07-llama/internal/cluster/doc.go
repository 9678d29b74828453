// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cluster makes clients of the cluster's API server, for the few kinds that this program needs, and says in
// which namespaces objects can be created. It does not know how the clients are used.
package cluster
