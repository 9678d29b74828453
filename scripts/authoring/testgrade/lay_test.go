// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"errors"
	"fmt"
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

// A test could compare the embedded sources with those that it knows.
func TestEmbeddedSourcesAreRefused(t *testing.T) {
	t.Parallel()
	const file = "-- a/a_test.go --\npackage a%s\n\nimport \"embed\"\n\n//go:embed %s\nvar files embed.FS\n"
	for _, test := range []struct {
		name, files string
		refused     bool
	}{
		{"all Go files", fmt.Sprintf(file, "", "*.go"), true},
		{"one Go file, in quotes", fmt.Sprintf(file, "", "notes.txt \"a.go\""), true},
		{"from a test of another package", fmt.Sprintf(file, "_test", "a.go"), true},
		{"all files", fmt.Sprintf(file, "", "*"), true},
		{"all files, with hidden ones", fmt.Sprintf(file, "", "all:*"), true},
		{"a folder", fmt.Sprintf(file, "", "b"), true},
		{"a folder, with hidden files", fmt.Sprintf(file, "", "all:b"), true},
		{"a pattern of folders", fmt.Sprintf(file, "", "[b-z]"), true},
		{
			"a Go file of testdata", fmt.Sprintf(file, "", "testdata") + "-- a/testdata/x.go --\npackage x\n", true,
		},
		{
			"from a package in testdata", "-- a/a_test.go --\npackage a\n-- a/testdata/x/x.go --\npackage x\n\n" +
				"import \"embed\"\n\n//go:embed *.go\nvar files embed.FS\n", true,
		},
		{
			"on another system", "-- a/a_test.go --\npackage a\n-- a/a_plan9_test.go --\npackage a\n\n" +
				"import \"embed\"\n\n//go:embed *.go\nvar files embed.FS\n", true,
		},
		{"other files", fmt.Sprintf(file, "", "*.txt testdata") + "-- a/testdata/x.yaml --\na: b\n", false},
		{"a pattern that is wrong", fmt.Sprintf(file, "", "[a"), false},
		{"nothing", "-- a/a_test.go --\npackage a\n\n// As //go:embed *.go does.\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := laid(t, test.files)
			_, refused := errors.AsType[*submission.Problem](err)
			if refused != test.refused || err != nil && !refused {
				t.Errorf("refused %t, want %t: %v", refused, test.refused, err)
			}
		})
	}
}
