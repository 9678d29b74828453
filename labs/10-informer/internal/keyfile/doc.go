// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package keyfile keeps the lines of an authorized_keys file that belong to AuthorizedKeys, and judges what may be such
// a line. It knows nothing of Kubernetes.
package keyfile
