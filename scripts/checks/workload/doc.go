// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package workload observes what an operator creates for an object of its kind: the Deployments and Services that are
// its children, their Pods, the answers of a node port, and the operator's rights. It uses only the API server: it
// requests a node port through the API server's proxy to a node, which works both on the embedded node and on kind. It
// also creates the difficulties that an operator must handle: foreign objects, Pods as a kubelet describes them, and
// errors of the API server. It gives no verdict.
package workload
