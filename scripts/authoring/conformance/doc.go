// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package conformance runs Kubernetes' own conformance tests against a cluster, and records what became of each. The
// tests are those of k8s.io/kubernetes, compiled as they are: this package only chooses which of them run, in which
// processes, and reads their reports.
//
// It starts no cluster. What a cluster can't do, and why, is listed in known.yaml.
package conformance
