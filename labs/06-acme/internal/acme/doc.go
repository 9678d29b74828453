// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package acme computes the answers to HTTP-01 challenges (RFC 8555, section 8.3). It does not order certificates:
// another program has the account and the order.
package acme
