// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/mutant"
)

// What is proven is so until something changes that decides it.
func TestWhatIsProven(t *testing.T) {
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
	one := candidate{name: "counts-letters", misconception: "a letter is a topping", expectation: mutant.Expectation{Fails: map[string]string{"toppings": "7"}}}
	known := func(c candidate) bool {
		t.Helper()
		p, err := newProven(filepath.Join(root, "proven"), lab, program)
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
		{"tortured as well", func() {}, tortured, false},
		{"another submission", func() { write(filepath.Join(dir, "main.go"), "package other") }, one, false},
		{"another file", func() { write(filepath.Join(dir, "api", "types.go"), "package api") }, one, false},
		{"other checks", func() { write(program, "two") }, one, false},
		{"the checks from before", func() { write(program, "one") }, one, true},
		{"another entry in labs.yaml", func() { lab.Checks = []manifest.Check{{ID: "toppings"}} }, one, false},
		{"nothing has changed again", func() {}, one, true},
		{"a third grader, when nobody has used the others for long", func() {
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
		{"the grader from before, of which nothing was kept", func() { write(program, "one") }, one, false},
	} {
		step.change()
		if had := known(step.candidate); had != step.want {
			t.Errorf("%s: it is proven: %t", step.what, had)
		}
	}
}
