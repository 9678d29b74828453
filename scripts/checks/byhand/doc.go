// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package byhand is the first part of lab 06: it orders a certificate at the cluster's ACME server, puts into the
// cluster what a student needs to prove the names by hand, and asks the server to look. The command `lab acme` and the
// checks do the same. It judges nothing.
package byhand
