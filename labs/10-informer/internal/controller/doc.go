// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controller keeps a node's authorized_keys file as the AuthorizedKeys of the cluster say. It is a controller
// without a framework: an informer, a work queue, and a loop.
package controller
