// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package freezer is the inventory service of lab 03: a ledger of what was taken out of a freezer and put back, behind
// a small HTTP API, and a client for it. It knows nothing of Kubernetes and never breaks: faults are made in front of
// it.
//
// The API is described in docs/reference/freezer.md.
package freezer
