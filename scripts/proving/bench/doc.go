// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package bench measures the budgets of the design, as Go benchmarks: `make bench`. It has no tests, and nothing in it
// fails because a machine is slow. What it measured stands in docs/benchmarks.md.
package bench
