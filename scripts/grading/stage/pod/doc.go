// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pod is a stage whose operators run as Pods, by the Deployment that the submission's own config/default makes.
// What only the nodes can do is behind the interface Nodes.
package pod
