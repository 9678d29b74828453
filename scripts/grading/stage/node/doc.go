// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package node creates stages at embedded clusters with a node. For an operator that is a Pod, it loads the image into
// the node, lets the operator reach this machine, and kills its container at once. An operator may also be a process
// beside the node. The clusters have the add-ons of their lab. The package runs no operator: packages pod and local do.
package node
