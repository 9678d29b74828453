// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package gate decides whether a change is sound. It runs the steps of `make test`, cheapest first, and stops at the
// first that fails. At the end it prints a table of times, the flaky tests, and the output of the failure. The steps
// are commands that a contributor can also run alone. The package also chooses and runs the unit tests of a step, and
// reads their results and times. It proves no promise of the project. Package proof does. See
// docs/decisions/0032-gate-and-proof.md.
package gate
