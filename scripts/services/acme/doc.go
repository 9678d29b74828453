// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package acme orders certificates by ACME (RFC 8555), one step at a time, so that a caller can prove between two steps
// that it controls the names: Register, Account.Order, Order.Validate, Order.Finalize. The proof is HTTP-01 (RFC 8555,
// section 8.3).
//
// It serves no proof itself, and knows nothing of Kubernetes.
package acme
