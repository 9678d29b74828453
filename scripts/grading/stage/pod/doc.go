// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pod implements a stage that runs operators as Pods, with the Deployment of the submission's own
// config/default. Other packages implement its interface Nodes, for everything that only the nodes can do.
package pod
