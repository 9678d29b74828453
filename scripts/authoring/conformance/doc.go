// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package conformance runs Kubernetes' own conformance tests against a cluster, and records the result of each. The
// tests are those of k8s.io/kubernetes, compiled unchanged. This package only chooses which of them run, in which
// processes, and reads their reports.
//
// It starts no cluster. The file known.yaml lists what a cluster can't do, and why.
package conformance
