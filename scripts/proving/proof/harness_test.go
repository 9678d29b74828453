// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checkout/programs"
)

// A certified submission is graded again if changed code can change its grade, and not after other changes.
func TestHarness(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	tree, err := ReadTree(t.Context(), runner, repo.Root)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := repo.Labs.Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	before, err := tree.harness(lab)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"scripts/grading/grade/grade.go": true, "scripts/grading/faults/doc.go": true,
		"scripts/grading/stage/pod/pod.go": true, "scripts/grading/stage/node/starter.go": true,
		"clusters/process/scope.go":  true,
		"scripts/cmd/lab/certify.go": true, "scripts/go.sum": true,
		"clusters/go.mod": true, "scripts/authoring/certify/certify.go": true,
		"scripts/proving/gate/gate.go": false, "scripts/proving/proof/parts.go": false,
		"scripts/cmd/lab/grade.go": false, "scripts/grading/grade/grade_test.go": false,
		"docs/README.md": false, "scripts/authoring/docs/code.go": false,
		"scripts/checks/02-reconciler/places_test.go": true, "scripts/checks/03-finalizer/taking_test.go": false,
	} {
		digest, known := tree.codes[name]
		if !known {
			t.Errorf("%s is not in the checkout: name another file", name)
		}
		tree.codes[name] = "changed"
		if after, err := tree.harness(lab); err != nil || (after != before) != want {
			t.Errorf("a change of %s changes the harness: %t, error %v", name, after != before, err)
		}
		tree.codes[name] = digest
	}
}

// Outside of a clone, or without git, only the program identifies the code. All other errors of git are reported.
func TestHarnessWithoutClone(t *testing.T) {
	for _, test := range []struct {
		name   string
		git    string // the content of .git
		path   string
		failed string
	}{
		{"no clone", "", os.Getenv("PATH"), ""},
		{"no git", "gitdir: elsewhere\n", "", ""},
		{"a broken clone", "gitdir: nowhere\n", os.Getenv("PATH"), "nowhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := withLab(t)
			if test.git != "" {
				if err := os.WriteFile(filepath.Join(root, ".git"), []byte(test.git), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", test.path)
			harness, err := Harness(t.Context(), &checkout.Checkout{Root: root})
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Errorf("error = %v, want one about %s", err, test.failed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := harness(&manifest.Lab{Name: "02-reconciler"}); got != "" || err != nil {
				t.Errorf("harness = %q, error = %v, want none", got, err)
			}
		})
	}
}

// withLab returns the root of a checkout with nothing but a lab command, which is not older than its sources.
func withLab(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"scripts/go.mod":          "module lva.io/operators/scripts\n\ngo 1.26\n",
		"scripts/cmd/lab/main.go": "package main\n\nfunc main() {}\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := programs.Lab(root).Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return root
}
