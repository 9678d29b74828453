// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package shared creates stages at existing clusters that others use, too. One run at a time holds such a cluster, with
// an account that can grant only rights that a lab needs. After a run, everything that it has created is removed.
package shared
