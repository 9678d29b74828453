// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package own creates stages at embedded clusters. A cluster can belong to one run and end with it, start before it is
// needed, or come from a pool, for runs that may share clusters.
package own
