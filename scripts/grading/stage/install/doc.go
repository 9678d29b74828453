// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package install installs a submission's objects in a cluster: kinds, an account with its roles, and objects of its
// own deployment. It distinguishes objects that the API server refuses, which are the submission's fault, from our own
// errors. In a cluster that has other users, it does not touch their objects. It starts no operator, and it does not
// connect the cluster to one.
package install
