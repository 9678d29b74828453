// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/command"
)

// everyLab returns the options of all labs, as certify uses them when no lab is named.
func everyLab(t *testing.T) []Options {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	var labs []Options
	for i := range repo.Labs.Labs {
		labs = append(labs, Options{Checkout: repo, Lab: &repo.Labs.Labs[i]})
	}
	return labs
}

// The skeleton and the solution are graded with every draw. A seed draws a fixed number of mutants of each lab, always
// the same ones, and another seed draws others.
func TestSeedDrawsMutants(t *testing.T) {
	t.Parallel()
	labs := everyLab(t)
	drawn := func(seed string) (names []string) {
		t.Helper()
		chosen, err := (&Draw{Seed: seed, Mutants: 2}).choose(t.Context(), labs)
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
			var lab []string
			for _, c := range options.drawn(all) {
				lab = append(lab, c.name)
			}
			if len(lab) != 4 || lab[0] != skeletonName || lab[1] != solutionName {
				t.Errorf("lab %s: drawn = %v, want skeleton, solution and two mutants", options.Lab.Name, lab)
			}
			names = append(names, lab...)
		}
		return names
	}
	first := drawn("a")
	if again := drawn("a"); !slices.Equal(first, again) {
		t.Errorf("the same seed drew %v, then %v", first, again)
	}
	if other := drawn("b"); slices.Equal(first, other) {
		t.Errorf("two seeds drew the same mutants: %v", first)
	}
}

// The test changes a clone of this repository in several places, one at a time, and checks which submissions are
// graded.
func TestChangesSelectSubmissions(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	repo, err := checkout.Find()
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
		// Each of the files gets another line at its end. A list of mutants gets another misconception for its first mutant.
		files []string
		// changed names the labs of which more is drawn. others is how many mutants and designs of lab 02 are new or
		// different.
		changed string
		others  int
	}{
		{"nothing", nil, "", 0},
		{"documentation", []string{"docs/lectures/02-reconcile.md", "docs/README.md"}, "", 0},
		{"a solution", []string{"solutions/02-reconciler/cmd/main.go"}, "02-reconciler", 0},
		{"the checks of a lab", []string{"scripts/checks/11-workspace/launch_test.go"}, "11-workspace", 0},
		{"a package that all checks import", []string{"scripts/checks/check/check.go"}, "", 0},
		{"a package that two labs share", []string{"scripts/checks/workload/page.go"}, "08-lolcow 09-webapp", 0},
		{"a design of lab 02", []string{"scripts/authoring/certify/testdata/designs/few-calls.txtar"}, "", 1},
		{"three solutions", []string{
			"solutions/02-reconciler/cmd/main.go", "solutions/03-finalizer/cmd/main.go", "solutions/04-webhook/cmd/main.go",
		}, "02-reconciler 03-finalizer 04-webhook", 0},
		{"a mutant", []string{"solutions/02-reconciler/mutants.yaml"}, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "clone")
			if _, err := runner.Run(t.Context(), repo.Root, nil, "git", "clone", "-q", "--shared", repo.Root, root); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.files {
				file := filepath.Join(root, filepath.FromSlash(name))
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				changed := string(content) + "\nvar changed bool\n"
				if filepath.Base(name) == mutant.File {
					changed = strings.Replace(string(content), "misconception: ", "misconception: Really, ", 1)
				}
				if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			draw := &Draw{Seed: "a", Mutants: 2, Changed: 5, Most: 1}
			if draw.Since, err = changes.Since(t.Context(), runner, root, "HEAD"); err != nil {
				t.Fatal(err)
			}
			clone := *repo
			clone.Root = root
			labs := everyLab(t)
			for i := range labs {
				labs[i].Checkout = &clone
			}
			chosen, err := draw.choose(t.Context(), labs)
			if err != nil {
				t.Fatal(err)
			}
			var changed []string
			for i, c := range chosen {
				graded := 0
				for _, yes := range c.graded {
					if yes {
						graded++
					}
				}
				if graded-c.changed == draw.Changed {
					changed = append(changed, labs[i].Lab.Name)
				} else if graded-c.changed != draw.Mutants {
					t.Errorf("drew %d mutants of %s", graded-c.changed, labs[i].Lab.Name)
				}
				if labs[i].Lab.Name == "02-reconciler" && c.changed != test.others {
					t.Errorf("got %d new or different mutants and designs of lab 02, want %d", c.changed, test.others)
				}
			}
			if got := strings.Join(changed, " "); got != test.changed {
				t.Errorf("labs with more mutants = %q, want %q", got, test.changed)
			}
		})
	}
}

// Soak repeats only the solution. All other submissions are graded once.
func TestSoakRepeatsOnlySolution(t *testing.T) {
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
			t.Errorf("%+v: times(%s) = %d, want %d", test.options, test.name, got, test.want)
		}
	}
}
