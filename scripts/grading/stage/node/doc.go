// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package node is what the stage of Pods needs of the node of an embedded cluster: it brings the operator's image
// there, lets the operator reach this machine, and ends its container at once. Beside it, an operator may be a process.
// It starts no cluster, and runs no operator: packages embedded, pod and local do.
package node
