// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package verify checks the repository itself: generated files are current, files that must agree do agree, and the
// code is well-formed. It runs no tests and grades no lab. Verify never edits the tree. Fix fixes what a program can
// fix.
package verify
