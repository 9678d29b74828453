// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package freezer implements the inventory service of lab 03, which records what was taken out of a freezer and put
// back, and a client for checks. It knows nothing about Kubernetes, and it never fails by itself: faults are injected
// in front of it.
//
// The API is described in docs/reference/freezer.md.
package freezer
