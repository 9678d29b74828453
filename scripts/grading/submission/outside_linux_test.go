// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

// The go command follows links to folders and replace directives, wherever they lead.
func TestStrictBuildStaysInsideTheFolder(t *testing.T) {
	t.Parallel()
	outside := samples.Lay(t, "-- go.mod --\nmodule example.com/icecream/internal/solution\n\ngo 1.26\n"+
		"-- solution.go --\npackage solution\n-- plain/solution.go --\npackage solution\n")
	plain := filepath.Join(outside, "plain")
	const program = "-- cmd/main.go --\npackage main\n\n" +
		"import _ \"example.com/icecream/internal/solution\"\n\nfunc main() {}\n"
	replaced := func(by string) string {
		return samples.Module + "\nrequire example.com/icecream/internal/solution v0.0.0\n\n" +
			"replace example.com/icecream/internal/solution => " + by + "\n" + program
	}
	const inside = "-- api/go.mod --\nmodule example.com/icecream/internal/solution\n\ngo 1.26\n" +
		"-- api/api.go --\npackage solution\n"
	linking := func(from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			link := filepath.Join(dir, filepath.FromSlash(from))
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func(*testing.T, string) {}
	hidden := strings.Replace(program, "internal/", "testdata/", 1)
	for _, test := range []struct {
		name, files string
		change      func(t *testing.T, dir string)
		want        string // in the problem; empty: it compiles
	}{
		{"a nested module", replaced("./api") + inside, nothing, ""},
		{"an absolute path", replaced(outside), nothing, "go.mod replaces example.com/icecream/internal/solution by /"},
		{"a relative path", replaced("./api/../../solution"), nothing, "by ./api/../../solution, which is outside"},
		{"a linked folder", samples.Module + program, linking("internal/solution", plain), "internal/solution is a link"},
		{
			"a linked folder of tests", samples.Module + hidden,
			linking("testdata/solution", plain), "testdata/solution is a link",
		},
		{
			"a linked file of tests", samples.Module + hidden,
			linking("testdata/solution/solution.go", filepath.Join(plain, "solution.go")),
			"testdata/solution/solution.go is a link",
		},
		{
			"a linked folder inside", samples.Module + program + "-- other/solution.go --\npackage solution\n",
			linking("internal/solution", "../other"),
			"",
		},
		{
			"a linked program and a broken link", samples.Module + "-- cmd/main.go --\n" + samples.Program,
			func(t *testing.T, dir string) {
				t.Helper()
				linking("bin/kustomize", filepath.Join(outside, "go.mod"))(t, dir)
				linking("bin/broken", filepath.Join(outside, "nothing"))(t, dir)
			},
			"",
		},
	} {
		dir := samples.Lay(t, test.files)
		test.change(t, dir)
		b := builder(t, dir)
		if err := b.Rebuild(t.Context()); err != nil && !strings.Contains(test.files, "/../") {
			t.Errorf("%s: it does not compile: %v", test.name, err)
		}
		b.Walled, b.Strict = true, true
		switch err := b.Rebuild(t.Context()); {
		case test.want == "" && err != nil:
			t.Errorf("%s: error = %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(problemOf(t, err).Reason, test.want)):
			t.Errorf("%s: error = %v, want a problem with %q", test.name, err, test.want)
		}
	}
}

// The compiler shows lines of a file that an assembly file includes. They could be those of another student's work.
func TestStrictBuildShowsNoOtherFiles(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(samples.Lay(t, "-- answers.txt --\nSMUGGLED words of another file\n"), "answers.txt")
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- cmd/read.go --\npackage main\n\nfunc read()\n-- cmd/read.s --\n#include \""+secret+"\"\n")
	b := builder(t, dir)
	if shown := problemOf(t, b.Rebuild(t.Context())).Error(); !strings.Contains(shown, "SMUGGLED") {
		t.Errorf("without walls, the problem is %q, want the other file's words", shown)
	}
	b.Walled, b.Strict = true, true
	if shown := problemOf(t, b.Rebuild(t.Context())).Error(); strings.Contains(shown, "SMUGGLED") ||
		!strings.Contains(shown, "cmd/read.s:") {
		t.Errorf("behind walls, the problem is %q, want that cmd/read.s can't include the file", shown)
	}
}
