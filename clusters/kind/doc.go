// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kind makes, finds, explains and deletes clusters of kind, with kind itself as a library, and puts images into
// their nodes. What is installed on a cluster (Cilium, cert-manager) is not its business but that of clusters/addons,
// and in which order all is done is scripts/cmd/cluster's.
//
// What state a cluster is in is read from the cluster: kind's containers, and in the cluster a ConfigMap that is
// written as the last act of making it. What has containers and no ConfigMap was either left half-made by a command
// that was killed, of which a file in the cluster's folder tells, and is created again; or it belongs to another owner,
// and is not touched.
package kind
