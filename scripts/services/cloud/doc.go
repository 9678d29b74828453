// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cloud is the fake cloud of lab 11: instances that cost money, behind a small HTTP API with client tokens,
// answers that are behind the truth, throttling and a bill; and a client for checks. It knows nothing of Kubernetes and
// never breaks: faults are made in front of it.
//
// The API is described in docs/reference/cloud.md.
package cloud
