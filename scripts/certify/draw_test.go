// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/changes"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/command"
	"lva.io/operators/scripts/mutant"
	"lva.io/operators/scripts/parts"
)

// everyLab is what certify takes when no lab is named.
func everyLab(t *testing.T) []Options {
	t.Helper()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	var labs []Options
	for i := range here.Labs.Labs {
		labs = append(labs, Options{Checkout: here, Lab: &here.Labs.Labs[i]})
	}
	return labs
}

// Whatever is drawn, skeleton and solution are graded, and the parts together grade each design and mutant, and torture each solution, once.
func TestThePartsGradeEachOnce(t *testing.T) {
	t.Parallel()
	labs := everyLab(t)
	graded := map[string]int{}
	mutants := 0
	for part := 1; part <= parts.Parts; part++ {
		chosen, err := (&Draw{Part: part}).choose(t.Context(), labs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range labs {
			options := labs[i]
			options.choice = chosen[i]
			all, err := options.candidates()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range options.drawn(all) {
				graded[options.Lab.Name+"/"+c.name]++
			}
			if part > 1 {
				continue
			}
			if all, err = options.candidates(); err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				name := options.Lab.Name + "/" + c.name
				if !c.drawn() {
					graded[name] -= parts.Parts - 1 // they are graded in each part
				} else {
					mutants++
				}
				if _, known := graded[name]; !known {
					graded[name] = 0
				}
			}
		}
	}
	for name, times := range graded {
		if times != 1 {
			t.Errorf("%s is graded %d times too often or too rarely in %d parts", name, times-1, parts.Parts)
		}
	}
	for part := 1; part <= parts.Parts; part++ {
		chosen, err := (&Draw{Part: part}).choose(t.Context(), labs)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range chosen {
			for _, yes := range c.graded {
				if yes {
					n++
				}
			}
		}
		if n < mutants/parts.Parts*2/3 || n > mutants/parts.Parts*3/2 {
			t.Errorf("part %d has %d of %d mutants: parts must be alike", part, n, mutants)
		}
	}
}

// A clone of this repository is changed in one place after the other, and what is graded because of it is looked at.
func TestWhatAChangeHasGraded(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name string
		// files get a line at their end, and a list of mutants another misconception of the first.
		files []string
		// complete are the labs whose mutants are all graded, and others how many of lab 02 are new or changed.
		complete string
		others   int
	}{
		{"nothing", nil, "", 0},
		{"documentation", []string{"docs/lectures/02-reconcile.md", "docs/README.md"}, "", 0},
		{"a solution", []string{"solutions/02-reconciler/cmd/main.go"}, "02-reconciler", 0},
		{"the checks of a lab", []string{"scripts/checks/11-workspace/launch_test.go"}, "11-workspace", 0},
		{"what all checks import", []string{"scripts/checks/check/check.go"}, "", 0},
		{"what two labs share", []string{"scripts/checks/workload/page.go"}, "08-lolcow 09-webapp", 0},
		{"a design", []string{"scripts/certify/testdata/designs/two-controllers.txtar"}, "", 0},
		{"three solutions", []string{
			"solutions/02-reconciler/cmd/main.go", "solutions/03-finalizer/cmd/main.go", "solutions/04-webhook/cmd/main.go",
		}, "", 0},
		{"a mutant", []string{"solutions/02-reconciler/mutants.yaml"}, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "clone")
			if _, err := runner.Run(t.Context(), here.Root, nil, "git", "clone", "-q", "--shared", here.Root, root); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.files {
				file := filepath.Join(root, filepath.FromSlash(name))
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				changed := string(content) + "\n// changed\n"
				if filepath.Base(name) == mutant.File {
					changed = strings.Replace(string(content), "misconception: ", "misconception: Really, ", 1)
				}
				if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			draw := &Draw{Part: 1}
			if draw.Since, err = changes.Since(t.Context(), runner, root, "HEAD"); err != nil {
				t.Fatal(err)
			}
			clone := *here
			clone.Root = root
			labs := everyLab(t)
			for i := range labs {
				labs[i].Checkout = &clone
			}
			chosen, err := draw.choose(t.Context(), labs)
			if err != nil {
				t.Fatal(err)
			}
			var complete []string
			for i, c := range chosen {
				if c.complete {
					complete = append(complete, labs[i].Lab.Name)
				}
				if others := c.others; labs[i].Lab.Name == "02-reconciler" && others != test.others {
					t.Errorf("%d mutants of lab 02 are new or changed, want %d", others, test.others)
				}
				if left := strings.HasSuffix(c.String(), "are left out"); left == c.complete {
					t.Errorf("complete: %t, and it says %q", c.complete, c)
				}
			}
			if got := strings.Join(complete, " "); got != test.complete {
				t.Errorf("complete are %q, want %q", got, test.complete)
			}
		})
	}
}

// The solution is graded as often as soak says, the others once.
func TestSoakIsForTheSolution(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		options Options
		name    string
		want    int
	}{
		{Options{}, solutionName, 1},
		{Options{Soak: 5}, solutionName, 5},
		{Options{Soak: 5}, "skeleton", 1},
		{Options{Soak: 5, Repeat: 2}, "skeleton", 2},
		{Options{Soak: 2, Repeat: 7}, solutionName, 7},
	} {
		if got := test.options.times(candidate{name: test.name}); got != test.want {
			t.Errorf("%+v grades the %s %d times, want %d", test.options, test.name, got, test.want)
		}
	}
}
