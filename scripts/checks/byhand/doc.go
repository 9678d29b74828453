// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package byhand implements the first part of lab 06: it orders a certificate at the cluster's ACME server, stores in
// the cluster the data that a student needs to prove the names by hand, and asks the server to validate them. The
// command `lab acme` and the checks use it in the same way. It gives no verdict.
package byhand
