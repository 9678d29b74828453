// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package changes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout/command"
)

// repository creates a repository with a module of three packages, commits it, and returns its root and a runner of
// git.
func repository(t *testing.T) (string, *command.Runner) {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	root := t.TempDir()
	write(t, root, map[string]string{
		"m/go.mod":              "module example.com/m\n\ngo 1.26\n",
		"m/a/a.go":              "package a\n\nimport _ \"example.com/m/b\"\n",
		"m/a/a_test.go":         "package a_test\n\nimport _ \"example.com/m/d\"\n",
		"m/d/d.go":              "package d\n",
		"m/a/README.md":         "a\n",
		"m/a/page/index.html":   "a\n",
		"m/a/testdata/input.go": "package input\n",
		"m/b/b.go":              "package b\n",
		"m/b/c/c.go":            "package c\n",
		"list.yaml":             "labs: []\n",
	})
	git(t, runner, root, "init", "-q")
	commit(t, runner, root)
	return root, runner
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, runner *command.Runner, root string, args ...string) {
	t.Helper()
	if _, err := runner.Run(t.Context(), root, nil, "git", args...); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, runner *command.Runner, root string) {
	t.Helper()
	git(t, runner, root, "add", "-A")
	git(t, runner, root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Change")
}

func TestChangedPackages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file      string
		committed bool
		touched   []string
	}{
		{"m/a/a.go", true, []string{"m/a"}},
		{"m/a/a.go", false, []string{"m/a"}},
		{"m/a/page/index.html", true, []string{"m/a"}},
		{"m/b/c/c.go", true, []string{"m/b/c"}},
		{"m/a/a_test.go", true, nil},
		{"m/a/README.md", true, nil},
		{"m/a/testdata/input.go", true, nil},
		{"list.yaml", true, nil},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			root, runner := repository(t)
			write(t, root, map[string]string{test.file: "package changed\n"})
			since := "HEAD"
			if test.committed {
				commit(t, runner, root)
				since = "HEAD~1"
			}
			changes, err := Since(t.Context(), runner, root, since)
			if err != nil {
				t.Fatal(err)
			}
			var touched []string
			for _, folder := range []string{"m/a", "m/b", "m/b/c"} {
				if changes.Touch(t.Context(), folder) {
					touched = append(touched, folder)
				}
			}
			if !slices.Equal(touched, test.touched) {
				t.Errorf("a change of %s touches %v, want %v", test.file, touched, test.touched)
			}
			if !changes.Any(func(name string) bool { return name == test.file }) {
				t.Errorf("%s has changed, but is not among the files", test.file)
			}
		})
	}
}

// A change of comments changes no code, so that it need not be graded. The linter checks it.
func TestCommentChange(t *testing.T) {
	t.Parallel()
	root, runner := repository(t)
	write(t, root, map[string]string{
		"m/b/b.go":   "// Package b is empty.\npackage b\n",
		"m/b/c/c.go": "package c\n\n//go:generate b\n",
	})
	changes, err := Since(t.Context(), runner, root, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if changes.Touch(t.Context(), "m/b") || !changes.SameCode(t.Context(), "m/b/b.go") {
		t.Error("a package comment touches the package")
	}
	if !changes.Touch(t.Context(), "m/b/c") || changes.SameCode(t.Context(), "m/b/c/c.go") {
		t.Error("a directive does not touch the package")
	}
	if got := changes.Packages("m"); !slices.Equal(got, []string{"m/b", "m/b/c"}) {
		t.Errorf("packages with changed Go files = %q", got)
	}
}

func TestPackageImports(t *testing.T) {
	t.Parallel()
	root, runner := repository(t)
	changes, err := Since(t.Context(), runner, root, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	imports, err := changes.Imports(t.Context(), "example.com/", "m", []string{"./a", "./b/c"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"m/a": {"m/a", "m/b", "m/d"}, "m/b/c": {"m/b/c"}} {
		if !slices.Equal(imports[name], want) {
			t.Errorf("%s and its tests import %v, want %v", name, imports[name], want)
		}
	}
}

func TestFileBeforeChange(t *testing.T) {
	t.Parallel()
	root, runner := repository(t)
	write(t, root, map[string]string{"list.yaml": "labs: [a]\n", "new.yaml": "a\n"})
	commit(t, runner, root)
	changes, err := Since(t.Context(), runner, root, "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"list.yaml": "labs: []\n", "new.yaml": ""} {
		if got, err := changes.Before(t.Context(), name); got != want || err != nil {
			t.Errorf("Before(%s): want %q, got %q (%v)", name, want, got, err)
		}
	}
}

func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	root, runner := repository(t)
	if _, err := Since(t.Context(), runner, root, "0123abc"); err == nil ||
		!strings.Contains(err.Error(), "there is no commit 0123abc in this repository") {
		t.Errorf("Since() error = %v", err)
	}
}
