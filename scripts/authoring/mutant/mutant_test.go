// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `
skeleton:
  fails: {served: "no such kind"}
mutants:
- name: no-toppings
  misconception: Toppings count themselves.
  edits: [{file: shop.go, find: "len(toppings)", replace: "0"}, {file: shop.go, find: "+1", replace: ""}]
  fails: {toppings: "is 0$"}
`

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMutantListErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, find, replace, want string }{
		{name: "nothing"},
		{"an unknown field", "misconception:", "idea:", `unknown field "idea"`},
		{"no misconception", "Toppings count themselves.", `""`, "the mutant no-toppings has no misconception"},
		{
			"no edits",
			`[{file: shop.go, find: "len(toppings)", replace: "0"}, {file: shop.go, find: "+1", replace: ""}]`,
			"[]", "the mutant no-toppings has no edits",
		},
		{"a mutant that no check finds", `{toppings: "is 0$"}`, "{}", "the mutant no-toppings fails no check"},
		{"a skeleton that no check finds", `{served: "no such kind"}`, "{}", "the skeleton fails no check"},
		{"a skeleton that can't be graded", `fails: {served: "no such kind"}`, `outcome: not-started`, ""},
		{
			"a skeleton that can't be graded and fails a check",
			`fails: {served: "no such kind"}`, `{outcome: not-started, fails: {served: x}}`,
			"the skeleton is not graded, so it fails no checks",
		},
		{"a mutant that crashes", `fails: {toppings: "is 0$"}`, "outcome: crashed", ""},
		{
			"a mutant that does not start", `fails: {toppings: "is 0$"}`, "outcome: not-started",
			"the mutant no-toppings has an outcome",
		},
		{
			"a crashed mutant with checks",
			`fails: {toppings: "is 0$"}`, "fails: {toppings: \"is 0$\"}\n  outcome: crashed",
			"the mutant no-toppings has an outcome",
		},
		{"an invalid expression", "is 0$", "is (0", "the expression for toppings"},
		{
			"several checks, one explained", `fails: {toppings: "is 0$"}`,
			"fails: {toppings: \"is 0$\", served: x}\n  explained: served", "",
		},
		{
			"several checks, none explained",
			`fails: {toppings: "is 0$"}`, `fails: {toppings: "is 0$", served: x}`,
			"the mutant no-toppings fails 2 checks: name the one that a student is shown first in explained",
		},
		{
			"an explained check that does not fail",
			`fails: {toppings: "is 0$"}`, "fails: {toppings: \"is 0$\"}\n  explained: served",
			"served is explained, but does not fail",
		},
		{"a mutant that only the torture finds", `fails: {toppings: "is 0$"}`, `torture: "is 0$"`, ""},
		{
			"a mutant with checks and a torture",
			`  fails: {toppings: "is 0$"}`, "  fails: {toppings: x}\n  torture: y",
			"the mutant no-toppings fails checks, so it need not be tortured: leave out fails or torture",
		},
		{
			"an invalid expression for the torture",
			`fails: {toppings: "is 0$"}`, `torture: "is (0"`,
			"the mutant no-toppings: the expression for the torture",
		},
		{
			"a torture without an expectation", `fails: {toppings: "is 0$"}`, `torture: ""`,
			"the mutant no-toppings fails no check",
		},
		{
			"a skeleton to be tortured", `fails: {served: "no such kind"}`, `torture: "no such kind"`,
			`unknown field "torture"`,
		},
		{
			"two mutants with the same name", "mutants:", `mutants:
- {name: no-toppings, misconception: x, edits: [{file: a, find: b, replace: c}], fails: {a: b}}`,
			"the mutant no-toppings is listed twice",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(good, test.find) != 1 && test.find != "" {
				t.Fatalf("invalid test: %q does not occur exactly once", test.find)
			}
			dir := t.TempDir()
			write(t, dir, File, strings.Replace(good, test.find, test.replace, 1))
			_, err := Load(dir)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "reading the mutants") {
		t.Errorf("Load() without a list: error = %v", err)
	}
}

func TestLoadTortureExpectation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, File, strings.Replace(good, `fails: {toppings: "is 0$"}`, `torture: "is 0$"`, 1))
	list, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := list.Mutants[0]; m.Torture != "is 0$" || len(m.Fails) != 0 {
		t.Errorf("Load() = %+v", m)
	}
}

func TestApplyMakesAllEdits(t *testing.T) {
	t.Parallel()
	solution, dir := t.TempDir(), t.TempDir()
	write(t, solution, File, good)
	list, err := Load(solution)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "shop.go", "count := len(toppings)+1")
	if err := list.Mutants[0].Apply(dir); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "shop.go"))
	if err != nil || string(content) != "count := 0" {
		t.Errorf("content after both edits = %q, %v", content, err)
	}
}

func TestApplyErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit Edit
		want string
	}{
		{
			"text that does not occur",
			Edit{"shop.go", "len(flavours)", "0"},
			"edit 1: the text to find occurs 0 times in shop.go",
		},
		{
			"text that occurs twice",
			Edit{"shop.go", "toppings", "0"},
			"edit 1: the text to find occurs 2 times in shop.go",
		},
		{"no text", Edit{"shop.go", "", "0"}, "must occur once"},
		{"a missing file", Edit{"store.go", "len", "0"}, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const before = "toppings, len(toppings)"
			dir := t.TempDir()
			write(t, dir, "shop.go", before)
			mutant := Mutant{Name: "wrong", Edits: []Edit{test.edit}}
			err := mutant.Apply(dir)
			if err == nil || !strings.HasPrefix(err.Error(), "the mutant wrong, ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, "shop.go")); string(after) != before {
				t.Errorf("the file has changed: %q", after)
			}
		})
	}
}
