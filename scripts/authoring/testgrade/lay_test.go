// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"os"
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// laid copies the tests of a submission, which are files of its package a, into a solution with the same package. It
// returns the solution's folder.
func laid(t *testing.T, files string) (dir string, err error) {
	t.Helper()
	const operator = "-- cmd/main.go --\n" + samples.Program + "-- a/a.go --\npackage a\n"
	from, err := submission.Open(samples.Lay(t, samples.Module+operator+files), "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := submission.Open(samples.Lay(t, "-- go.mod --\nmodule lva.io/ours\n\ngo 1.26\n"+operator+
		"-- a/b/b.go --\npackage b\n-- a/notes.txt --\nnotes\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = copyTests(from, to)
	return to.Dir, err
}

// The assembler code includes a source of the solution, so that the compiler's messages show it.
func TestTestdataIsCopiedWithoutIncludes(t *testing.T) {
	t.Parallel()
	dir, err := laid(t, "-- a/a_test.go --\npackage a\n\nimport _ \"example.com/icecream/a/testdata/leak\"\n"+
		"-- a/testdata/leak/leak.go --\npackage leak\n\nfunc leak()\n"+
		"-- a/testdata/leak/leak.s --\n#include \"../../a.go\"\n-- a/testdata/leak/leak.h --\n#include \"../../a.go\"\n"+
		"-- a/testdata/leak/data.yaml --\na: b\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"leak.go": true, "data.yaml": true, "leak.s": false, "leak.h": false} {
		_, err := os.Stat(filepath.Join(dir, "a", "testdata", "leak", name))
		if got := err == nil; got != want {
			t.Errorf("%s was copied: %t, want %t (%v)", name, got, want, err)
		}
	}
}
