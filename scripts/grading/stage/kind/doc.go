// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kind gives a stage access to the nodes of a kind cluster, which are Docker containers. It loads images into
// the nodes, kills a container in one, and copies the API server's audit log and the certificate of its front proxy. It
// does not create the cluster.
package kind
