// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
)

func TestPartsOfCheckout(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(repo)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := ReadTree(t.Context(), newBench(t).runner, repo.Root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, part := range parts {
		if seen[part.Name] || part.Proves == "" || part.Usual <= 0 || part.Usual > 30*time.Minute || len(part.Commands) == 0 {
			t.Errorf("invalid part %+v", part)
		}
		seen[part.Name] = true
		if _, err := tree.Hash(part.Inputs); err != nil {
			t.Errorf("%s: %v", part.Name, err)
		}
	}
	for _, family := range []string{
		"certify", "torture", "mutate", "soak", "stalled", "conformance", "unit",
		"kind", "air-gap", "fresh", "browser", "pages", "lint", "bench",
	} {
		if _, err := choose(parts, []string{family}); err != nil {
			t.Error(err)
		}
	}
}

// Parts that name labs or modules name all existing ones, each once.
func TestPartsCoverEverything(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(repo)
	if err != nil {
		t.Fatal(err)
	}
	commands := func(names ...string) (all []string) {
		for _, part := range parts {
			if slices.Contains(names, part.Name) {
				all = append(all, part.Commands[0].Args...)
			}
		}
		return strings.FieldsFunc(strings.Join(all, " "), func(r rune) bool { return r == ' ' || r == ',' })
	}
	kind := commands("kind-a", "kind-b")
	for _, lab := range repo.Labs.Labs {
		if n := strconv.Itoa(lab.Number); len(slices.DeleteFunc(slices.Clone(kind), func(word string) bool {
			return word != n
		})) != 1 {
			t.Errorf("lab %s is not exactly once in %v", n, kind)
		}
	}
	if got := strings.Join(commands("kind-repeat"), " "); got != "make e2e-kind FLAGS=--labs 8 9 --times 10" {
		t.Errorf("got command %s", got)
	}
	clusters := commands("unit-clusters")
	for _, module := range []string{"clusters", "clusters/images/programs/ingress", "clusters/images/programs/shell"} {
		if !slices.Contains(clusters, module) {
			t.Errorf("%s is not in %v", module, clusters)
		}
	}
	for _, part := range parts {
		if part.Family == "unit" && !slices.Contains(part.Commands[0].Env, "OPERATOR_LABS_NAMESPACES=required") {
			t.Errorf("%s may skip tests: %v", part.Name, part.Commands[0])
		}
	}
}

// The outputs are those of the commands, as the commands' own tests expect them.
func TestPartCounts(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ part, output, proved, failure string }{
		{"certify-02", "02-reconciler: 40 graded, 3.1 s\n", "40 submissions", ""},
		{
			"torture-02",
			"\n02-reconciler survives: a good day, each single crash at a write, and random schedules, 41 in all (seed 4711).\n",
			"41 schedules", "",
		},
		{"mutate-02", "02-reconciler: 34 mutants: 18 found (81.8 % of the 22 that are wrong)\n", "34 mutants", ""},
		{"conformance-node", "38 of 39 passed, 1 failed\n", "38 tests", ""},
		{
			"unit-clusters",
			"clusters: 40 tests passed, 0 failed, 1 were left out\n" +
				"clusters/images/programs/shell: 2 tests passed, 0 failed, 0 were left out\n",
			"42 tests", "",
		},
		{"unit-clusters", "clusters: 0 tests passed, 0 failed, 40 were left out\n", "", "its output counts no tests"},
		{"kind-a", "ok       9.1 s  create the student cluster\nok     110.2 s  test the network\n", "2 steps", ""},
		{
			"air-gap",
			"The machine is a Debian root (bookworm) with this machine's Go. It has no network. It was ready after 9s.\n" +
				"--- make lab-1: passed after 40s\n", "1 step", "",
		},
		{
			"air-gap", "The machine is this one, for a user who has an empty home. It is no Debian root " +
				"(only root may make one), so a program that is missing elsewhere may be found here. It was ready after 0s.\n" +
				"--- make lab-1: passed after 40s\n",
			"1 step", "it ran on the machine itself, whose network",
		},
	} {
		i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == test.part })
		if i < 0 {
			t.Errorf("no part %s", test.part)
			continue
		}
		if got := parts[i].counted(test.output); got != test.proved {
			t.Errorf("%s: counted() = %q, want %q", test.part, got, test.proved)
		}
		if err := parts[i].check(test.output); (err == nil) != (test.failure == "") ||
			err != nil && !strings.HasPrefix(err.Error(), test.failure) {
			t.Errorf("%s: check() = %v, want %q", test.part, err, test.failure)
		}
	}
}
