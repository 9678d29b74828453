// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cloud implements the fake cloud of lab 11, which rents out instances through a small HTTP API, and a client
// for checks. The API has client tokens, stale reads, throttling and a bill. It knows nothing about Kubernetes, and it
// never fails by itself: faults are injected in front of it.
//
// The API is described in docs/reference/cloud.md.
package cloud
