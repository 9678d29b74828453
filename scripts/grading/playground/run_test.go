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

// What the compiler says is output once, with its place.
func TestCompileErrorsArePrintedOnce(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	printBuildError(&output, "shop.go", &submission.Problem{
		Reason:      "it does not compile",
		Diagnostics: []report.Diagnostic{{File: "internal/shop.go", Line: 7, Column: 2, Message: "undefined: cone"}},
	})
	const want = "shop.go was saved: it does not compile\n    internal/shop.go:7:2: undefined: cone\n"
	if output.String() != want {
		t.Errorf("it says %q, want %q", output.String(), want)
	}
}

// Two operators would have the account, its rights and the way to the webhooks in common.
func TestPlaygroundRunsOneOperatorAtATime(t *testing.T) {
	t.Parallel()
	playground := &embedded.Playground{Dir: t.TempDir()}
	unlock, err := lockRun(playground)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRun(playground); !errors.Is(err, errRunning) {
		t.Errorf("while one runs, a second one gets %v", err)
	}
	unlock()
	unlock, err = lockRun(playground)
	if err != nil {
		t.Fatalf("after the first one has ended, another gets %v", err)
	}
	unlock()
}
