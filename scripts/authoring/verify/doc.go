// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package verify checks the repository itself: that what is generated is current, that what must agree agrees, that the
// code is in order. It runs no tests and grades no lab. Looking for problems never edits the tree; what a program can
// fix is fixed by Fix.
package verify
