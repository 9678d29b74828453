// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package install installs a submission's objects in a cluster: kinds, an account with its roles, and objects of its
// own deployment. It distinguishes objects that the API server refuses, which are errors of the submission, from errors
// of the grader. In a cluster that has other users, it does not change their objects. It starts no operator, and it
// does not connect the cluster to one.
package install
