// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package own makes stages at embedded clusters: one that a run has for itself and that ends with it, one that was
// started before it was needed, and one of a pool, for runs that may share.
package own
