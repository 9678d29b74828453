// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"errors"
	"strings"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// A compiler error is printed once, with its position.
func TestCompileErrorsArePrintedOnce(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	printBuildError(&output, "shop.go", &submission.Problem{
		Reason:      "it does not compile",
		Diagnostics: []report.Diagnostic{{File: "internal/shop.go", Line: 7, Column: 2, Message: "undefined: cone"}},
	})
	const want = "shop.go was saved: it does not compile\n    internal/shop.go:7:2: undefined: cone\n"
	if output.String() != want {
		t.Errorf("got %q, want %q", output.String(), want)
	}
}

// Two operators would share the account, its rights and the route to the webhooks.
func TestPlaygroundRunsOneOperatorAtATime(t *testing.T) {
	t.Parallel()
	playground := &embedded.Playground{Dir: t.TempDir()}
	unlock, err := lockRun(playground)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRun(playground); !errors.Is(err, errRunning) {
		t.Errorf("second lockRun() error = %v, want errRunning", err)
	}
	unlock()
	unlock, err = lockRun(playground)
	if err != nil {
		t.Fatalf("lockRun() after unlock: error = %v", err)
	}
	unlock()
}
