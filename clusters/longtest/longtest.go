// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package longtest skips long tests in the gate. Such a test belongs to the proof, which runs all tests:
// docs/decisions/0032-gate-and-proof.md. The package decides nothing else about a test.
package longtest

import "testing"

// Proof skips a test when only short tests run (`go test -short`, as in the gate). A test belongs to the proof if it
// takes more than about five seconds of processor time on a quiet machine.
func Proof(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("it belongs to the proof: make prove PART=unit")
	}
}

// First returns all rows of a test's table, or only the first one when only short tests run. It is for tables whose
// rows take long.
func First[Row any](rows []Row) []Row {
	if testing.Short() && len(rows) > 1 {
		return rows[:1]
	}
	return rows
}
