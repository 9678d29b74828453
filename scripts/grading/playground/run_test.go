// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// What the compiler says is said once, with its place.
func TestWhatDoesNotCompileIsSaidOnce(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	printUnbuilt(&said, "shop.go", &submission.Problem{
		Reason:      "it does not compile",
		Diagnostics: []report.Diagnostic{{File: "internal/shop.go", Line: 7, Column: 2, Message: "undefined: cone"}},
	})
	const want = "shop.go was saved: it does not compile\n    internal/shop.go:7:2: undefined: cone\n"
	if said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}
