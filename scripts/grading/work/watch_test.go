// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

func TestWatchStartsWithLastFailedCheck(t *testing.T) {
	t.Parallel()
	const all, others = "newest-goes", "served" // of the checks of a run
	for _, test := range []struct{ what, folder, sample, check, want string }{
		{"nothing was graded", "own", "", all, ""},
		{"a check failed", "own", "graded-failed.json", all, "newest-goes"},
		{"nothing failed", "own", "graded-full.json", all, ""},
		{"it does not compile", "own", "not-built.json", all, ""},
		{"another folder", "another", "graded-failed.json", all, ""},
		{"a run without the check that failed", "own", "graded-failed.json", others, ""},
	} {
		dir := t.TempDir()
		lab := &manifest.Lab{Number: 2, Checks: []manifest.Check{{ID: test.check}}}
		w := &Work{
			Checkout: &checkout.Checkout{Root: dir}, Lab: lab, Dir: filepath.Join(dir, "own"), Out: filepath.Join(dir, "out"),
		}
		if test.sample != "" {
			stored, err := report.Read(filepath.Join("..", "report", "testdata", test.sample))
			if err != nil {
				t.Fatal(err)
			}
			stored.Submission.Dir = filepath.Join(dir, test.folder)
			if err := formats.Write(filepath.Join(w.Out, verdictDir), *stored); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.ToFix(); got != test.want {
			t.Errorf("%s: ToFix() = %q, want %q", test.what, got, test.want)
		}
	}
}
