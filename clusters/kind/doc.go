// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kind creates, finds, explains and deletes kind clusters, with kind itself as a library, and loads images into
// their nodes. It does not install anything on a cluster, such as Cilium or cert-manager: clusters/addons does.
// scripts/cmd/cluster determines the order of all steps.
//
// The package reads the state of a cluster from the cluster itself: from kind's containers, and from a ConfigMap that
// is written as the last step of its creation. A cluster that has containers and no ConfigMap is in one of two states.
// If a file in the cluster's folder records that a command was killed during the creation, the cluster is created
// again. Otherwise it belongs to another owner, and is not touched.
package kind
