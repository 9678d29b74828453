// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package acme orders certificates from an ACME server (RFC 8555) one step at a time. The steps are Register,
// Account.Order, Order.Validate and Order.Finalize, and between them a caller can prove that it controls the names. The
// proof is HTTP-01 (RFC 8555, section 8.3).
//
// It serves no proof itself, and knows nothing about Kubernetes.
package acme
