// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package install brings into a cluster what a submission consists of there: kinds, an account with its roles, objects
// of its own deployment. It tells what the API server refuses, which is the submission's fault, from what is ours, and
// in a cluster that has other users it touches nothing of theirs. It starts no operator, and knows no way from the
// cluster to one.
package install
