// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package bench measures the time budgets of the design with Go benchmarks: `make bench`. It has no tests, and no
// benchmark fails because a machine is slow. docs/benchmarks.md has the results.
package bench
