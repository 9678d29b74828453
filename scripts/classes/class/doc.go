// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package class gives the students of a roster access to a cluster that they share, and revokes it: each student gets a
// namespace with limits, an account that can work only in that namespace, and a kubeconfig that expires. It does not
// create clusters, and does not grade.
//
// The students' objects are the YAML of clusters/config/class. This package adds names, owners and access rights. On
// the cluster it changes only objects that it created, which it finds by their labels.
package class
