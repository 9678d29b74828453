// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package class brings the students of a roster onto a cluster that they share, and takes them out again: for each a
// namespace with its limits, an account that can work in it and do nothing else, and a kubeconfig that expires. It
// makes no cluster, and grades nobody.
//
// What students get is the YAML of clusters/config/class. What this package adds is names, owners, and who may: it
// touches nothing on the cluster that it did not create, and finds that by its labels.
package class
