// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package proving groups the gate, the proof, and the tests that span the whole course.
//
// The gate runs the steps of `make test`, and the proof runs the parts of `make prove`. The tests run the course on
// kind, on a fresh machine and in a browser, and the benchmarks measure its time budgets. The checks of labs are in
// scripts/checks, and the checks of the repository's files in scripts/authoring/verify.
package proving
