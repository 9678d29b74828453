// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
)

// makeIn runs make as a student does, without the variables of the make or the go that runs this test.
func makeIn(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", args...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "GOFLAGS", "GOWORK", "CGO_ENABLED"}, name)
	})
	content, err := command.CombinedOutput()
	return string(content), err
}

// targets returns the targets in a Makefile's help.
func targets(t *testing.T, makefile string) []string {
	t.Helper()
	content, err := os.ReadFile(makefile)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z%-]+):.*## `).FindAllStringSubmatch(string(content), -1) {
		names = append(names, match[1])
	}
	if len(names) < 10 {
		t.Fatalf("%s has the targets %v: is the search wrong?", makefile, names)
	}
	return names
}

func folders(t *testing.T, pattern string) []string {
	t.Helper()
	makefiles, err := filepath.Glob(filepath.Join(root, pattern, "Makefile"))
	if err != nil || len(makefiles) == 0 {
		t.Fatalf("the folders %s: %v, error %v", pattern, makefiles, err)
	}
	var dirs []string
	for _, makefile := range makefiles {
		dirs = append(dirs, filepath.Dir(makefile))
	}
	return dirs
}

// A mistyped flag must be an error of the command, so every recipe passes its flags on.
func TestRootRecipesPassFlags(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(?m)^\t@(?:\$\((?:LAB|INSTRUCTOR)\)|\.cache/bin/(?:doctor|fresh)) .*$`).
		FindAllString(string(content), -1)
	if len(calls) < 30 {
		t.Fatalf("the recipes are %q: is the search wrong?", calls)
	}
	for _, call := range calls {
		if !strings.Contains(call, "$(FLAGS)") {
			t.Errorf("a recipe passes no flags on: %s", call)
		}
	}
}

// Other flags would compile Kubernetes' libraries a second time, which takes a quarter of an hour for one unit test.
func TestLabsCompileWithGraderFlags(t *testing.T) {
	t.Parallel()
	for _, dir := range folders(t, "solutions/*") {
		output, err := makeIn(t, dir, "-f", "Makefile", "--eval", `show: ; @echo "$$GOFLAGS|$$GOWORK|$$CGO_ENABLED"`, "show")
		want := strings.Join(gobuild.Flags, " ") + "|off|0"
		if err != nil || strings.TrimSpace(output) != want {
			t.Errorf("%s compiles with %q, error %v; want %q", dir, strings.TrimSpace(output), err, want)
		}
		if environment := gobuild.Environment(); !slices.Contains(environment, "GOWORK=off") ||
			!slices.Contains(environment, "CGO_ENABLED=0") {
			t.Errorf("the grader compiles in another environment: %v", environment)
		}
	}
}

func TestMakeTest(t *testing.T) {
	t.Parallel()
	skip := regexp.MustCompile(`_test\.go:\d+:\s+t\.Skip\("TODO\(lab\): (?:[a-c]?\d+\. )?` +
		`remove this line when (?:you [^;"]+; then: make test|the server can do it)"\)`)
	nameOf := func(dir string) string {
		name, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.ToSlash(name)
	}
	for _, dir := range longtest.First(slices.Concat(folders(t, "solutions/*"), folders(t, "labs/*"))) {
		name := nameOf(dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for API servers to start and to stop
			output, err := makeIn(t, dir, "test")
			if err != nil {
				t.Errorf("make test in %s: %v\n%s", dir, err, output)
			}
			skips := 0
			if strings.HasPrefix(name, "labs/") {
				skips = skipsIn(t, dir)
			}
			if printed := len(skip.FindAllString(output, -1)); printed != skips {
				t.Errorf("make test in %s names %d of %d tests that are skipped, and says that make test runs them:\n%s",
					dir, printed, skips, output)
			}
		})
	}
}

// skipsIn counts the tests of a lab that skip themselves.
func skipsIn(t *testing.T, dir string) (skips int) {
	t.Helper()
	for _, pattern := range []string{"internal/*/*_test.go", "internal/*/*/*_test.go"} {
		tests, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range tests {
			content, err := os.ReadFile(test)
			if err != nil {
				t.Fatal(err)
			}
			skips += strings.Count(string(content), "\tt.Skip(")
		}
	}
	return skips
}

// Hints name commands for a lab's folder, but people also type them in other folders.
func TestMakeTargetsInWrongFolder(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	own := targets(t, filepath.Join(root, "Makefile"))
	for _, dir := range folders(t, "solutions/*") {
		for _, target := range targets(t, filepath.Join(dir, "Makefile")) {
			if slices.Contains(own, target) {
				continue
			}
			output, err := makeIn(t, root, "-n", target)
			want := regexp.MustCompile("type make " + target + " in the folder of your lab, or from here, " +
				"for example: make -C (labs/[^ ]+) " + target)
			match := want.FindStringSubmatch(output)
			if err == nil || match == nil {
				t.Errorf("make %s in the root: error %v, output %q; want %q", target, err, output, want)
				continue
			}
			if !slices.Contains(targets(t, filepath.Join(root, match[1], "Makefile")), target) {
				t.Errorf("make %s in the root prints %q, but there is no such target", target, match[0])
			}
		}
	}
	for _, dir := range folders(t, "labs/*") {
		for _, target := range []string{
			"labs", "up", "status", "down", "lab-2", "read-2", "hint-2", "watch-2",
			"torture-2", "tests-2", "run-2", "reset-2", "solution-2",
		} {
			if output, err := makeIn(t, dir, "-n", target); err != nil || !strings.Contains(output, "-C ../.. "+target) {
				t.Errorf("make %s in %s: error %v, recipe %q; want the recipe of the root", target, dir, err, output)
			}
		}
	}
}
