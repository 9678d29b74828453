// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
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
		strict(t, b)
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
	outside := samples.Lay(t, "-- answers.txt --\nSMUGGLED words of another file\n")
	for name, included := range map[string]string{
		"another file":      filepath.Join(outside, "answers.txt"),
		"a file of the run": "../../../run.txt", // from the folder of the package's object file
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
				"-- cmd/read.go --\npackage main\n\nfunc read()\n-- cmd/read.s --\n#include \""+included+"\"\n")
			b := builder(t, dir)
			file := filepath.Join(b.Scope.Dir, "run.txt")
			if err := os.WriteFile(file, []byte("SMUGGLED words of the run\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if shown := problemOf(t, b.Rebuild(t.Context())).Error(); !strings.Contains(shown, "SMUGGLED") {
				t.Errorf("without walls, the problem is %q, want words of the file", shown)
			}
			strict(t, b)
			if shown := problemOf(t, b.Rebuild(t.Context())).Error(); strings.Contains(shown, "SMUGGLED") {
				t.Errorf("behind walls, the problem is %q", shown)
			}
		})
	}
}

// An assembly file can include the variables of the compiler, too.
func TestStrictBuildHidesVariables(t *testing.T) {
	t.Setenv("OPERATOR_LABS_SECRET", "SMUGGLED")
	t.Setenv("GOAUTH", "SMUGGLED")
	b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program))
	list := tool{path: "env", environment: offline(), timeout: buildTimeout}
	if variables, err := b.tool(t.Context(), list); err != nil || !strings.Contains(variables, "SMUGGLED") {
		t.Errorf("without walls, the variables are %s, error %v", variables, err)
	}
	strict(t, b)
	variables, err := b.tool(t.Context(), list)
	if err != nil || strings.Contains(variables, "SMUGGLED") || !strings.Contains(variables, "CGO_ENABLED=0\n") {
		t.Errorf("behind walls, the variables are %s, error %v", variables, err)
	}
}

// Three tools run for each submission. They share the walk through its folder and the question to the go command.
func TestStrictBuildChecksSubmissionOnce(t *testing.T) {
	b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program))
	strict(t, b)
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	calls := filepath.Join(bin, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%q\nexec %q \"$@\"\n", calls, program)
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for range 3 {
		if err := b.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if content, err := os.ReadFile(calls); err != nil || strings.Count(string(content), "\n") != 1 {
		t.Errorf("go on PATH was called with %q, error %v; want one call", content, err)
	}
}

// A submission, like the go command's caches, may be in a folder that is a link.
func TestStrictBuildFollowsLinkToFolder(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program), link); err != nil {
		t.Fatal(err)
	}
	b := builder(t, link)
	strict(t, b)
	if err := b.Rebuild(t.Context()); err != nil {
		t.Errorf("it does not compile behind walls: %v", err)
	}
}

// strict makes the builds strict. It skips the test if this machine can't build the walls.
func strict(t *testing.T, b *Builder) {
	t.Helper()
	b.Strict = true
	p, err := b.Scope.Start(process.Spec{Path: "/bin/true", Dir: b.Scope.Dir, Contained: true, Walls: b.Walls(nil, nil)})
	if err == nil {
		err = p.Wait(t.Context())
	}
	if err != nil && os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
		t.Skipf("this machine can't build the walls: %v", err)
	}
}
