// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// A proven submission stays proven until something that decides its grade changes.
func TestProvenSubmissions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	program, dir := filepath.Join(root, "checks"), filepath.Join(root, "submission")
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(program, "one")
	write(filepath.Join(dir, "main.go"), "package main")
	lab := &manifest.Lab{Name: "02-reconciler"}
	one := candidate{
		name: "counts-letters", misconception: "a letter is a topping",
		expectation: mutant.Expectation{Fails: map[string]string{"toppings": "7"}},
	}
	by := graders{programs: []string{program}}
	known := func(c candidate) bool {
		t.Helper()
		p, err := newProven(filepath.Join(root, "proven"), lab, by)
		if err != nil {
			t.Fatal(err)
		}
		file, err := p.file(c, dir)
		if err != nil {
			t.Fatal(err)
		}
		had := p.has(file)
		if err := p.keep(file); err != nil {
			t.Fatal(err)
		}
		return had
	}
	other := one
	other.expectation = mutant.Expectation{Fails: map[string]string{"toppings": "8"}}
	withoutExtension := one
	withoutExtension.base = true
	tortured := one
	tortured.torture = true
	for _, step := range []struct {
		what      string
		change    func()
		candidate candidate
		want      bool
	}{
		{"nothing is proven yet", func() {}, one, false},
		{"nothing has changed", func() {}, one, true},
		{"another expectation", func() {}, other, false},
		{"tortured, too", func() {}, tortured, false},
		{"without the lab's extension", func() {}, withoutExtension, false},
		{"another image", func() {
			by.images = []images.Built{{Reference: "operator-labs/lolcow:v1", ID: "sha256:1"}}
		}, one, false},
		{"the same name, other layers", func() { by.images[0].ID = "sha256:2" }, one, false},
		{"no image, as before", func() { by.images = nil }, one, true},
		{"another submission", func() { write(filepath.Join(dir, "main.go"), "package other") }, one, false},
		{"a comment", func() {
			write(filepath.Join(dir, "main.go"), "// Command other does nothing.\npackage other")
		}, one, true},
		{"a unit test", func() { write(filepath.Join(dir, "main_test.go"), "package other") }, one, false},
		{"another mutant", func() { write(filepath.Join(dir, "mutants.yaml"), "mutants: []") }, one, true},
		{"another file", func() { write(filepath.Join(dir, "api", "types.go"), "package api") }, one, false},
		{"another harness", func() { by.harness = "two" }, one, false},
		{"the earlier harness", func() { by.harness = "" }, one, true},
		{"other checks", func() { write(program, "two") }, one, false},
		{"the earlier checks", func() { write(program, "one") }, one, true},
		{"another entry in labs.yaml", func() { lab.Checks = []manifest.Check{{ID: "toppings"}} }, one, false},
		{"nothing has changed again", func() {}, one, true},
		{"a third grader, after the others were unused for a long time", func() {
			write(program, "three")
			long := time.Now().Add(-2 * unusedTime)
			graders, err := filepath.Glob(filepath.Join(root, "proven", lab.Name, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range graders {
				if err := os.Chtimes(dir, long, long); err != nil {
					t.Fatal(err)
				}
			}
		}, one, false},
		{"the earlier grader, whose records were removed", func() { write(program, "one") }, one, false},
	} {
		step.change()
		if had := known(step.candidate); had != step.want {
			t.Errorf("%s: has() = %t", step.what, had)
		}
	}
}

// Generating a skeleton takes seconds, and its solution determines its content.
func TestProvenSkeletonIsNotGenerated(t *testing.T) {
	t.Parallel()
	source, lab := t.TempDir(), &manifest.Lab{Name: "02-reconciler"}
	if err := os.WriteFile(filepath.Join(source, "main.go"), []byte("package main"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := newProven(t.TempDir(), lab, graders{})
	if err != nil {
		t.Fatal(err)
	}
	laid := errors.New("it is laid out")
	skeleton := candidate{name: skeletonName, source: source, prepare: func(context.Context, string) error { return laid }}
	o := Options{Lab: lab, proven: known}
	if _, err := o.certify(t.Context(), skeleton, filepath.Join(t.TempDir(), "skeleton")); !errors.Is(err, laid) {
		t.Errorf("certify of an unproven skeleton: error = %v, want that of prepare", err)
	}
	file, err := known.file(skeleton, source)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.keep(file); err != nil {
		t.Fatal(err)
	}
	if r, err := o.certify(t.Context(), skeleton, filepath.Join(t.TempDir(), "skeleton")); err != nil || !r.proven {
		t.Errorf("certify of a proven skeleton: result %+v, error %v", r, err)
	}
}

// A node takes part in grading a lab whose Pods run. Without the node's programs or images nothing can be compared.
func TestNodeIsPartOfGraders(t *testing.T) {
	t.Parallel()
	repo := &checkout.Checkout{Root: t.TempDir()}
	lab := &manifest.Lab{Name: "05-cert-manager", Addons: []string{"cert-manager"}}
	var by graders
	if complete, err := by.addNode(repo, lab); complete || err != nil {
		t.Errorf("addNode() without programs = %t, %v, want false", complete, err)
	}
	for _, name := range []string{"node/init", "node/agent", "node/imagebuild", "bin/addons"} {
		file := filepath.Join(repo.Root, ".cache", filepath.FromSlash(name))
		if !slices.Contains(by.programs, file) {
			t.Errorf("programs lack %s: %v", file, by.programs)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	// The store compares images with their sources.
	source, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"clusters", "scripts"} {
		if err := os.Symlink(filepath.Join(source.Root, folder), filepath.Join(repo.Root, folder)); err != nil {
			t.Fatal(err)
		}
	}
	if complete, err := by.addNode(repo, lab); complete || err != nil {
		t.Errorf("addNode() without images = %t, %v, want false", complete, err)
	}
}
