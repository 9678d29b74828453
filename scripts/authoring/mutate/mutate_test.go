// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/authoring/mutate"
)

// operators has small sources, each with all mutants that are generated from it.
var operators = []struct {
	name, source string
	want         []string
}{
	{"conditions", `
		func f(a, b bool) (n int) {
			if a && b {
				n = g()
			}
			if !a {
				n = g()
			} else if c := b; c {
				panic(n)
			}
			return n
		}
		func g() int { return 7 - len("") }`, []string{
		"f, remove-statement: if a && b { n = g() } → (nothing)",
		"f, negate-condition: a && b → !(a && b)",
		"f, drop-condition: a && b → a",
		"f, other-value: a → b",
		"f, drop-condition: a && b → b",
		"f, drop-condition: a && b → true",
		"f, connective: && → ||",
		"f, other-value: b → a",
		"f, remove-statement: n = g() → (nothing)",
		"f, remove-statement: if !a { n = g() } else if c := b; c { panic(n) } → (nothing)",
		"f, negate-condition: !a → a",
		"f, drop-condition: !a → false",
		"f, drop-condition: !a → true",
		"f, other-value: a → b",
		"f, remove-statement: n = g() → (nothing)",
		"f, other-value: b → a",
		"f, drop-condition: c → false",
		"f, drop-condition: c → true",
		"f, remove-statement: panic(n) → (nothing)",
		"g, constant: 7 → 6",
		"g, constant: 7 → 8",
		"g, arithmetic: - → +",
	}},
	{"answers", `
		func f(a int) bool { return a < 3 }
		func g(s string) (bool, int) { return slices.Contains(names, s), 0 }
		var names = []string{"cup", "spoon"}`, []string{
		"f, negate-condition: a < 3 → !(a < 3)",
		"f, comparison: < → <=",
		"f, comparison: < → >",
		"f, constant: 3 → 2",
		"f, constant: 3 → 4",
		"g, negate-condition: slices.Contains(names, s) → !(slices.Contains(names, s))",
		"g, constant: 0 → 1",
		`names, constant: "cup" → "cupx"`,
		`names, drop-element: "cup", → (nothing)`,
		`names, drop-element: , "spoon" → (nothing)`,
		`names, constant: "spoon" → "spoonx"`,
	}},
	{"errors", `
		func f() (int, error) {
			if err := g(); err != nil {
				return 0, err
			}
			return len(""), g()
		}
		func g() error { return fmt.Errorf("%d", 1) }`, []string{
		"f, remove-statement: if err := g(); err != nil { return 0, err } → (nothing)",
		"f, drop-condition: err != nil → false",
		"f, drop-condition: err != nil → true",
		"f, comparison: != → ==",
		"f, constant: 0 → 1",
		"f, drop-error: err → nil",
		`f, drop-error: return len(""), g() → { _ = g(); return len(""), nil }`,
		`g, drop-error: fmt.Errorf("%d", 1) → nil`,
	}},
	{"statements", `
		func f(numbers ...int) (n int) {
			defer clear(numbers)
			for _, number := range numbers {
				if number == n {
					continue
				}
				n += number
				n++
			}
			for n > 9 { // it is large
				n /= 2
			}
			return
		}`, []string{
		"f, remove-statement: defer clear(numbers) → (nothing)",
		"f, remove-statement: for _, number := range numbers { if number == n { continue } n += number n++ } → (nothing)",
		"f, remove-statement: if number == n { continue } → (nothing)",
		"f, drop-condition: number == n → true",
		"f, comparison: == → !=",
		"f, remove-statement: continue → (nothing)",
		"f, remove-statement: n += number → (nothing)",
		"f, arithmetic: += → -=",
		"f, remove-statement: n++ → (nothing)",
		"f, arithmetic: n++ → n--",
		"f, remove-statement: for n > 9 { n /= 2 } → (nothing)",
		"f, drop-condition: n > 9 → false",
		"f, comparison: > → <",
		"f, comparison: > → >=",
		"f, constant: 9 → 10",
		"f, constant: 9 → 8",
		"f, remove-statement: n /= 2 → (nothing)",
		"f, constant: 2 → 1",
		"f, constant: 2 → 3",
	}},
	{"calls", `
		func f(a, b string) { fmt.Print(a, b) }
		func g(log interface{ Info(string) }) { log.Info("it is only read by people") }
		type chain struct{ links []int }
		func (c *chain) with(n int) *chain { c.links = append(c.links, n); return c }
		func h() []int { return new(chain).with(1).with(2).links }`, []string{
		"f, remove-statement: fmt.Print(a, b) → (nothing)",
		"f, swap-arguments: a, b → b, a",
		"f, other-value: a → b",
		"f, drop-argument: , b → (nothing)",
		"f, other-value: b → a",
		"chain.with, remove-statement: c.links = append(c.links, n) → (nothing)",
		"chain.with, drop-argument: , n → (nothing)",
		"h, drop-call: .with(1) → (nothing)",
		"h, constant: 1 → 0",
		"h, constant: 1 → 2",
		"h, drop-call: .with(2) → (nothing)",
		"h, constant: 2 → 1",
		"h, constant: 2 → 3",
	}},
	{"texts", `
		type problem struct{ Code int; Message string }
		func (p *problem) Error() string { return p.Message }
		func refuse(message string, code int) *problem { return &problem{Message: message, Code: code} }
		func say(message string) string { return message }
		func f() error { say("please"); return refuse("it is only"+" read by people", 400) }`, []string{
		"refuse, drop-element: Message: message, → (nothing)",
		"refuse, drop-element: , Code: code → (nothing)",
		`f, remove-statement: say("please") → (nothing)`,
		`f, constant: "please" → "pleasex"`,
		"f, constant: 400 → 399",
		"f, constant: 400 → 401",
	}},
	{"unused", `
		func f(numbers []int) (n int) {
			count := len(numbers)
			for i, number := range numbers {
				n += i * number
			}
			if c := count; c > 1 {
				text.ToUpper(fmt.Sprint(c))
			}
			return
		}`, []string{
		"f, remove-statement: for i, number := range numbers { n += i * number } → (nothing)",
		"f, other-value: n → count",
		"f, remove-statement: n += i * number → (nothing)",
		"f, arithmetic: += → -=",
		"f, other-value: i → number",
		"f, arithmetic: * → /",
		"f, other-value: number → i",
		"f, remove-statement: if c := count; c > 1 { text.ToUpper(fmt.Sprint(c)) } → (nothing)",
		"f, other-value: count → n",
		"f, negate-condition: c > 1 → !(c > 1)",
		"f, drop-condition: c > 1 → false",
		"f, drop-condition: c > 1 → true",
		"f, comparison: > → <",
		"f, comparison: > → >=",
		"f, constant: 1 → 0",
		"f, constant: 1 → 2",
		"f, remove-statement: text.ToUpper(fmt.Sprint(c)) → (nothing)",
		"f, drop-argument: c → (nothing)",
	}},
	{"values", `
		type reader interface{ Read() string }
		type shop struct {
			reader
			live reader
			open, closed bool
		}
		func (s *shop) f() string { return s.live.Read() }
		func g() shop { return shop{open: true, closed: false} }`, []string{
		"shop.f, other-value: live → reader",
		"g, drop-element: open: true, → (nothing)",
		"g, constant: true → false",
		"g, drop-element: , closed: false → (nothing)",
		"g, constant: false → true",
	}},
	{"markers", `
		// Wish is a request for ice cream.
		type Wish struct {
			// flavours lists scoops.
			// +required
			// +listType=set
			// +kubebuilder:validation:MaxItems=3
			Flavours []string ` + "`json:\"flavours,omitempty\"`" + `
		}
		// +kubebuilder:object:root=true
		//lab:begin more
		// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch
		// +kubebuilder:webhook:mutating=true,failurePolicy=fail,sideEffects=None
		//lab:else
		// // +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list
		//lab:end`, []string{
		"Wish.Flavours, remove-marker: // +required → (nothing)",
		"Wish.Flavours, remove-marker: // +listType=set → (nothing)",
		"Wish.Flavours, widen-marker: =set → =atomic",
		"Wish.Flavours, remove-marker: // +kubebuilder:validation:MaxItems=3 → (nothing)",
		"Wish.Flavours, widen-marker: MaxItems=3 → MaxItems=2",
		"Wish.Flavours, widen-marker: MaxItems=3 → MaxItems=4",
		"Wish.Flavours, constant: `json:\"flavours,omitempty\"` → `json:\"flavours\"`",
		"Wish.Flavours, constant: `json:\"flavours,omitempty\"` → `json:\"flavoursx,omitempty\"`",
		", remove-marker: // +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch → (nothing)",
		", widen-marker: groups=demo.lva.io → groups=*",
		", widen-marker: resources=icecreams → resources=*",
		", widen-marker: verbs=list;watch → verbs=*",
		", widen-marker: verbs=list;watch → verbs=list",
		", widen-marker: verbs=list;watch → verbs=watch",
		", remove-marker: // +kubebuilder:webhook:mutating=true,failurePolicy=fail,sideEffects=None → (nothing)",
		", widen-marker: mutating=true → mutating=false",
		", widen-marker: failurePolicy=fail → failurePolicy=ignore",
		", widen-marker: sideEffects=None → sideEffects=Some",
	}},
}

const task = "\n//lab:begin task\n//lab:end\n"

// lay writes a module with these files and returns its folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "02-shop")
	write(t, dir, "go.mod", "module example.com/shop\n\ngo 1.26\n")
	for name, content := range files {
		write(t, dir, name, content)
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func generate(t *testing.T, dir string) []mutate.Mutant {
	t.Helper()
	mutants, err := mutate.Generate(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

func changes(mutants []mutate.Mutant) []string {
	var all []string
	for i := range mutants {
		all = append(all, mutants[i].Change())
	}
	return all
}

// everyOperator returns a module with the sources of operators, each in a package of its own.
func everyOperator(t *testing.T) string {
	t.Helper()
	files := map[string]string{}
	for _, test := range operators {
		source := "package " + test.name + "\n"
		for name, path := range map[string]string{"fmt": `"fmt"`, "slices": `"slices"`, "text": `text "strings"`} {
			if strings.Contains(test.source, name+".") {
				source += "import " + path + "\n"
			}
		}
		files["internal/"+test.name+"/shop.go"] = source + task + test.source + "\n"
	}
	return lay(t, files)
}

func TestOperators(t *testing.T) {
	t.Parallel()
	all := generate(t, everyOperator(t))
	for _, test := range operators {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := "internal/" + test.name + "/shop.go"
			var got []string
			for i := range all {
				if all[i].File == file {
					got = append(got, strings.TrimPrefix(strings.TrimPrefix(all[i].Change(), file), " "))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("mutants (-want +got)\n%s", diff)
			}
		})
	}
}

// The test asks the go command, not the type checker that chose the mutants.
func TestEveryMutantCompiles(t *testing.T) {
	t.Parallel()
	dir := everyOperator(t)
	all := generate(t, dir)
	for i := range all {
		file, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(all[i].File)))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, "mutants", all[i].ID)
		write(t, target, all[i].File, string(file))
		if err := all[i].Apply(target); err != nil {
			t.Fatal(err)
		}
		changed, err := os.ReadFile(filepath.Join(target, filepath.FromSlash(all[i].File)))
		if err != nil || string(changed) == string(file) {
			t.Errorf("%s changes nothing (%v)", all[i].Change(), err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "build", "./...")
	command.Dir, command.Env = dir, gobuild.Environment()
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("not all of %d mutants compile: %v\n%s", len(all), err, output)
	}
}

func TestOnlyTasksAreMutated(t *testing.T) {
	t.Parallel()
	const body = "func f() int { return 1 }\n"
	got := changes(generate(t, lay(t, map[string]string{
		"internal/given.go": "package internal\n" + body,
		"internal/generated.go": "// Code generated by controller-gen. DO NOT EDIT.\n\npackage internal\n" + task +
			strings.ReplaceAll(body, "f()", "g()"),
		"internal/f_test.go": "package internal\n" + task + strings.ReplaceAll(body, "f()", "h()"),
		"cmd/main.go": "package main\nfunc main() { println(1) }\n//lab:begin task\nfunc f() { println(2) }\n//lab:else\n" +
			"// // TODO(lab): println(3)\n//lab:end\nfunc g() { println(4) }\n",
	})))
	want := []string{
		"cmd/main.go f, remove-statement: println(2) → (nothing)",
		"cmd/main.go f, constant: 2 → 1",
		"cmd/main.go f, constant: 2 → 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mutants (-want +got)\n%s", diff)
	}
}

// Files that a nearly empty lab already has are not mutated. The student writes all other files, although they have no
// marked tasks.
func TestNearlyEmptyLabMutatesMissingFiles(t *testing.T) {
	t.Parallel()
	solution, err := filepath.Abs(filepath.Join("..", "..", "..", "solutions", "09-webapp"))
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := mutate.Generate(t.Context(), solution)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]int{}
	for _, m := range mutants {
		files[m.File]++
	}
	for _, file := range []string{
		"internal/controller/webapp_controller.go", "internal/controller/children.go", "api/v1alpha1/webapp_types.go",
	} {
		if files[file] == 0 {
			t.Errorf("no mutant of %s: %v", file, files)
		}
	}
	if files["cmd/main.go"] > 0 {
		t.Errorf("the lab already has cmd/main.go, and it has %d mutants, want 0", files["cmd/main.go"])
	}
}

func TestBrokenSolutionHasNoMutants(t *testing.T) {
	t.Parallel()
	_, err := mutate.Generate(t.Context(), lay(t, map[string]string{
		"shop.go": "package shop\n" + task + "func f() int { return \"\" }\n",
	}))
	if err == nil || !strings.Contains(err.Error(), "shop.go:5:23") {
		t.Errorf("want an error with the position, got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mutate.Generate(ctx, everyOperator(t)); err == nil {
		t.Error("an interrupted Generate() returned no error")
	}
}

func TestMutantIDIsStable(t *testing.T) {
	t.Parallel()
	const before = "package shop\n" + task + "func f(n int) (int, int) { return n + 1, n + 1 }\n"
	ids := func(source string) []string {
		var all []string
		for _, m := range generate(t, lay(t, map[string]string{"shop.go": source})) {
			all = append(all, m.ID)
		}
		return all
	}
	first := ids(before)
	if unique := slices.Compact(slices.Sorted(slices.Values(first))); len(first) != 6 || len(unique) != 6 {
		t.Errorf("want six mutants with different IDs, got %v", first)
	}
	if again := ids("// Package shop is open.\n" + before + "\nfunc g() {}\n"); !slices.Equal(first, again) {
		t.Errorf("a change to other code changed the IDs from %v to %v", first, again)
	}
	for _, id := range ids(strings.ReplaceAll(before, "f(", "h(")) {
		if slices.Contains(first, id) {
			t.Errorf("the ID %s stayed the same in another function", id)
		}
	}
}

func TestApplyRefusesChangedFile(t *testing.T) {
	t.Parallel()
	dir := lay(t, map[string]string{"shop.go": "package shop\n" + task + "func f() int { return 1 }\n"})
	mutant := generate(t, dir)[0]
	for _, content := range []string{"package shop\n", "package shop\n" + task + "func f() int { return 2 }\n"} {
		write(t, dir, "shop.go", content)
		err := mutant.Apply(dir)
		if err == nil || !strings.Contains(err.Error(), "shop.go has changed since it was made") {
			t.Errorf("Apply() error = %v", err)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, "shop.go")); string(now) != content {
			t.Errorf("the file has changed: %q", now)
		}
	}
}

func TestSampleIsStableForSeed(t *testing.T) {
	t.Parallel()
	var all []mutate.Mutant
	for i := range 100 {
		all = append(all, mutate.Mutant{ID: fmt.Sprintf("%08x", i*i), File: path.Join("shop", "shop.go")})
	}
	ids := func(sample []mutate.Mutant) (ids []string) {
		for _, m := range sample {
			ids = append(ids, m.ID)
		}
		return ids
	}
	ten := ids(mutate.Sample(all, 10, 7))
	if len(ten) != 10 {
		t.Errorf("got a sample of %d, want 10", len(ten))
	}
	if twenty := ids(mutate.Sample(all, 20, 7)); !slices.Equal(ten, twenty[:10]) {
		t.Errorf("the larger sample %v does not begin with the smaller one %v", twenty, ten)
	}
	if other := ids(mutate.Sample(all, 10, 8)); slices.Equal(ten, other) {
		t.Error("another seed chose the same mutants")
	}
	gone := slices.DeleteFunc(slices.Clone(all), func(m mutate.Mutant) bool { return m.ID == ten[3] })
	if fewer := ids(mutate.Sample(gone, 10, 7)); !slices.Equal(slices.Delete(slices.Clone(ten), 3, 4), fewer[:9]) {
		t.Errorf("without %s the sample is %v, before it was %v", ten[3], fewer, ten)
	}
	if sample := mutate.Sample(all, 1000, 7); len(sample) != 100 {
		t.Errorf("a sample larger than all has %d mutants, want 100", len(sample))
	}
}
