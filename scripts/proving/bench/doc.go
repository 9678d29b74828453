// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package bench measures the time budgets of the design with Go benchmarks: `make bench`. No benchmark fails because a
// machine is slow. docs/benchmarks.md has the results. Match is for the command that runs them.
package bench
