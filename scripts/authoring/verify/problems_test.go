// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scene is a repository in which a test makes a mistake.
type scene struct {
	t    *testing.T
	root string
}

func (s scene) edit(name, old, replacement string) {
	s.t.Helper()
	edit(s.t, s.root, name, old, replacement)
}

func (s scene) write(name, content string) {
	s.t.Helper()
	write(s.t, s.root, name, content)
}

func TestProblemsAreFoundAndFixed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(s scene)
		// check is the check that fails. Only this check fails unless others is set.
		check  string
		others string
		// want is the expected message.
		want string
		// byHand reports that Fix does not help.
		byHand bool
	}{
		{
			name:  "a stale skeleton",
			spoil: func(s scene) { s.edit("labs/01-shop/shop.go", "return false", "return true") },
			check: "skeletons", want: "labs/01-shop/shop.go: is stale: its solution generates a different skeleton",
		},
		{
			name: "an additional file in a lab",
			spoil: func(s scene) {
				s.write("labs/01-shop/extra.yaml", "a: 1\n")
			},
			check: "skeletons", want: "labs/01-shop/extra.yaml: should not be there",
		},
		{
			name: "a lab without a solution",
			spoil: func(s scene) {
				s.write("labs/03-gone/notes.txt", "")
			},
			check: "skeletons", want: "labs/03-gone: has no solution", byHand: true,
		},
		{
			name: "a change in the file of an earlier lab",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/PROJECT", "repo:", "domain: lva.io\nrepo:")
			},
			check: "shared-files", others: "skeletons",
			want: "solutions/02-sale/PROJECT: is stale: it differs from solutions/01-shop/PROJECT",
		},
		{
			name: "a generated file without a generator",
			spoil: func(s scene) {
				s.write("solutions/01-shop/config/crd/bases/shop.yaml", "a: 1\n")
			},
			check: "generated", want: "solutions/01-shop/config/crd/bases/shop.yaml: should not be there",
		},
		{
			name: "code that differs from a page",
			spoil: func(s scene) {
				s.edit("docs/lecture.md", "return true", "return yes")
			},
			check: "pages", want: "docs/lecture.md: is stale",
		},
		{
			name:  "a dead link",
			spoil: func(s scene) { s.edit("README.md", "#open", "#closed") },
			check: "pages", want: "README.md:3: docs/lecture.md#closed is a dead link", byHand: true,
		},
		{
			name:  "a sentence without a subject",
			spoil: func(s scene) { s.edit("README.md", "See", "Somebody opens the shop. See") },
			check: "prose", want: `README.md:3: has "Somebody": name the subject`, byHand: true,
		},
		{
			name: "a check with a missing lecture",
			spoil: func(s scene) {
				s.edit("docs/lecture.md", "# Open", "# Closed")
				s.edit("README.md", "#open", "#closed")
			},
			check: "labs-list", want: "#open", byHand: true,
		},
		{
			name:  "another version of Go",
			spoil: func(s scene) { s.edit("scripts/go.mod", "go 1.26.0", "go 1.25.0") },
			check: "go-version", want: "scripts/go.mod: names Go 1.25.0, and go.work names 1.26.0",
		},
		{
			name: "an image that builds with another version of Go",
			spoil: func(s scene) {
				for _, folder := range []string{"solutions", "labs"} {
					s.write(folder+"/02-sale/Dockerfile", "FROM golang:1.25 AS builder\n")
				}
			},
			check:  "go-version",
			want:   "solutions/02-sale/Dockerfile: go.work names Go 1.26.0: begin its first stage with FROM golang:1.26",
			byHand: true,
		},
		{
			name: "a toolchain",
			spoil: func(s scene) {
				s.edit("scripts/go.mod", "go 1.26.0\n", "go 1.26.0\n\ntoolchain go1.26.3\n")
			},
			check: "go-version", want: "scripts/go.mod: names a toolchain",
		},
		{
			name: "an unused requirement",
			spoil: func(s scene) {
				s.edit("scripts/go.mod", "go 1.26.0\n", "go 1.26.0\n\nrequire golang.org/x/mod v0.32.0\n")
			},
			check: "tidy", want: "scripts/go.mod: is not tidy",
		},
		{
			name: "no license",
			spoil: func(s scene) {
				s.edit("scripts/scripts.go", license+"\n", "")
			},
			check: "files", want: "scripts/scripts.go: does not begin with the two SPDX lines",
		},
		{
			name: "a package without a comment",
			spoil: func(s scene) {
				s.edit("scripts/scripts.go", "// Package scripts does nothing.\n", "")
			},
			check: "package-comments", want: "scripts: no file has a package comment: write a doc.go", byHand: true,
		},
		{
			name: "a command without a comment",
			spoil: func(s scene) {
				s.write("scripts/cmd/shop/main.go", license+"\npackage main\n\nfunc main() {}\n")
				s.write("scripts/cmd/till/main.go", license+"\n// Command till counts.\npackage main\n\nfunc main() {}\n")
				s.write("scripts/cmd/testdata/main.go", license+"\npackage main\n")
			},
			check: "package-comments", want: "  scripts/cmd/shop: no file has a package comment: write a doc.go\n", byHand: true,
		},
		{
			name: "a path on one machine",
			spoil: func(s scene) {
				s.edit("README.md", "See", "In /"+"home/anna/labs/ see")
			},
			check: "files", want: "README.md:3: names /" + "home/anna/", byHand: true,
		},
		{
			name: "the path of this repository",
			spoil: func(s scene) {
				s.edit("README.md", "See", "In "+s.root+"/docs see")
			},
			check: "files", want: "which is there on one machine only", byHand: true,
		},
		{
			name: "a large file",
			spoil: func(s scene) {
				s.write("docs/large.txt", strings.Repeat("x", 2<<20))
			},
			check: "files", want: "docs/large.txt: has 2048 KiB", byHand: true,
		},
		{
			name: "a long file",
			spoil: func(s scene) {
				s.edit("scripts/scripts.go", "package scripts\n", "package scripts\n"+strings.Repeat("\n// More.\n", 250))
			},
			check: "files", want: "scripts/scripts.go: has 505 lines, and may have 500: split it by topic", byHand: true,
		},
		{
			name:  "code that is not formatted",
			spoil: func(s scene) { s.edit("scripts/scripts.go", "package scripts", "package scripts\n\n\n") },
			check: "format", want: "scripts/scripts.go: is stale: gofmt formats it another way",
		},
		{
			name: "a mutant of code that has changed",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", "find: return true", "find: return yes")
			},
			check: "mutants",
			want:  "the mutant closed does not apply: edit 1: the text to find occurs 0 times in shop.go", byHand: true,
		},
		{
			name: "a mutant of the lab's part",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml",
					"find: return true, replace: return false", "find: open the shop, replace: close it")
			},
			check: "mutants", want: "it changes only a comment for the lab", byHand: true,
		},
		{
			name: "a mutant of a missing check",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", `{open: "closed"}`, `{opened: "closed"}`)
			},
			check: "mutants", want: `the mutant closed: lab 01-shop has no check "opened"`, byHand: true,
		},
		{
			name: "a mutant that proves nothing",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", `{open: "closed"}`, `{}`)
			},
			check: "mutants", want: "the mutant closed fails no check, so it proves nothing", byHand: true,
		},
	}
	ordered := os.DirFS(inOrder(t))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.CopyFS(root, ordered); err != nil {
				t.Fatal(err)
			}
			test.spoil(scene{t, root})
			commit(t, root)
			before := tree(t, root)
			out, err := verify(t, root, quick...)
			if err == nil {
				t.Fatalf("Verify found nothing:\n%s", out)
			}
			failed := test.check
			if test.others != "" {
				failed += ", " + test.others
			}
			if !strings.Contains(err.Error(), "("+failed+")") {
				t.Errorf("got error %v, want failed checks %s\n%s", err, failed, out)
			}
			if !strings.Contains(out, test.want) {
				t.Errorf("the output lacks %q:\n%s", test.want, out)
			}
			if got := strings.Contains(out, "make fix"); got == test.byHand {
				t.Errorf("output mentions `make fix`: %v, want %v\n%s", got, !test.byHand, out)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("Verify changed the tree:\n%s", diff)
			}
			if test.byHand {
				return
			}
			if out, err := fix(t, root, quick...); err != nil {
				t.Fatalf("fix: %v\n%s", err, out)
			}
			if out, err := verify(t, root, quick...); err != nil {
				t.Errorf("after the fix: %v\n%s", err, out)
			}
		})
	}
}
