// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package misconception

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
)

const root = "../../../.."

// realLabs returns the misconceptions of all labs.
func realLabs(t *testing.T) map[string][]Known {
	t.Helper()
	var list struct {
		Labs []struct {
			Name   string `json:"name"`
			Checks []struct {
				ID      string `json:"id"`
				Lecture string `json:"lecture"`
			} `json:"checks"`
		} `json:"labs"`
	}
	content, err := os.ReadFile(filepath.Join(root, "labs", "labs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &list); err != nil {
		t.Fatal(err)
	}
	lectures := map[string]string{} // The preconditions of a lab are checks of an earlier one.
	labs := map[string][]Known{}
	for _, lab := range list.Labs {
		for _, c := range lab.Checks {
			lectures[c.ID] = c.Lecture
		}
		mutants, err := mutant.Load(filepath.Join(root, "solutions", lab.Name))
		if err != nil {
			t.Fatal(err)
		}
		known, err := From(lab.Name, mutants, func(check string) string { return lectures[check] })
		if err != nil {
			t.Fatal(err)
		}
		labs[lab.Name] = known
	}
	if len(labs) < 11 {
		t.Fatalf("found %d labs", len(labs))
	}
	return labs
}

// TestMatchRecognizesEachMutant holds for all labs: the failed checks of a mutant identify it, with and without the
// observations.
func TestMatchRecognizesEachMutant(t *testing.T) {
	t.Parallel()
	for lab, all := range realLabs(t) {
		byChecksAlone, alike, withReasons := 0, 0, 0
		for _, k := range all {
			var checks, reasons []Failure
			for check, pattern := range k.Fails {
				observed := example(t, pattern.String())
				if !pattern.MatchString(observed) {
					t.Fatalf("the test is wrong: %q does not match %q", observed, pattern)
				}
				checks = append(checks, Failure{Check: check})
				reasons = append(reasons, Failure{Check: check, Observed: observed})
			}
			byChecks, byReasons := Match(checks, all), Match(reasons, all)
			for what, found := range map[string][]Found{"the checks": byChecks, "the checks and what was observed": byReasons} {
				i := slices.IndexFunc(found, func(f Found) bool { return f.Name == k.Name })
				if i < 0 {
					t.Errorf("%s: Match() of the %s of %s does not find it, but %v", lab, what, k.Name, names(found))
					continue
				}
				for _, f := range found {
					if !f.Exact || f.Likeness != 1 {
						t.Errorf("%s: %s is as near as %s itself, and not exact: %+v", lab, f.Name, k.Name, f)
					}
				}
			}
			if len(byReasons) > len(byChecks) {
				t.Errorf("%s: the observations of %s distinguish less than the checks alone", lab, k.Name)
			}
			byChecksAlone += btoi(len(byChecks) == 1)
			withReasons += btoi(len(byReasons) == 1)
			alike = max(alike, len(byReasons))
			if k.Lecture == "" && k.Fails["own-tests"] == nil {
				t.Errorf("%s: no lecture explains %s", lab, k.Name)
			}
		}
		t.Logf("%s: of %d misconceptions, the checks alone name %d, with the observations %d; "+
			"at most %d can't be told apart", lab, len(all), byChecksAlone, withReasons, alike)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func names(found []Found) (all []string) {
	for _, f := range found {
		all = append(all, f.Name)
	}
	return all
}

// example returns a text that an expression matches. It supports the syntax that the expressions of mutants.yaml use.
func example(t *testing.T, pattern string) string {
	t.Helper()
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	var write func(r *syntax.Regexp) string
	write = func(r *syntax.Regexp) string {
		switch r.Op {
		case syntax.OpLiteral:
			return string(r.Rune)
		case syntax.OpCharClass:
			for i := 0; i+1 < len(r.Rune); i += 2 {
				if r.Rune[i] <= 'a' && 'a' <= r.Rune[i+1] {
					return "a"
				}
			}
			return string(r.Rune[0])
		case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
			return "x"
		case syntax.OpCapture, syntax.OpPlus, syntax.OpQuest:
			return write(r.Sub[0])
		case syntax.OpStar:
			return ""
		case syntax.OpRepeat:
			return strings.Repeat(write(r.Sub[0]), r.Min)
		case syntax.OpAlternate:
			return write(r.Sub[0])
		case syntax.OpConcat:
			text := ""
			for _, sub := range r.Sub {
				text += write(sub)
			}
			return text
		default:
			return ""
		}
	}
	return write(parsed.Simplify())
}

// shop returns a small lab: no-cherry and no-cream fail the same check for different reasons.
func shop(t *testing.T) []Known {
	t.Helper()
	known, err := From("02-shop", &mutant.List{
		Skeleton: mutant.Expectation{Fails: map[string]string{"served": "nothing", "cream": "nothing"}},
		Mutants: []mutant.Mutant{
			{
				Name: "letters", Misconception: "Letters are flavours.",
				Expectation: mutant.Expectation{Fails: map[string]string{"count": "is 1[0-9]"}},
			},
			{
				Name: "once", Misconception: "Counted once is counted for ever.",
				Expectation: mutant.Expectation{Fails: map[string]string{"count": "is 2$"}},
			},
			{
				Name: "twice", Misconception: "Counted twice.",
				Expectation: mutant.Expectation{Fails: map[string]string{"count": "is [0-9]$"}},
			},
			{
				Name: "cherry", Misconception: "A cherry is no topping.",
				Expectation: mutant.Expectation{
					Fails: map[string]string{"count": "is 0", "cherry": "none", "sold": ""}, Explained: "sold",
				},
			},
			{Name: "crashes", Misconception: "Nothing fails.", Expectation: mutant.Expectation{Outcome: "crashed"}},
			{Name: "tortured", Misconception: "Nothing fails.", Torture: "x"},
		},
	}, func(check string) string { return "docs/lectures/02.md#" + check })
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		failed []Failure
		want   []string
		exact  bool
	}{
		{"nothing failed", nil, nil, false},
		{"the reason decides", []Failure{{"count", "is 13"}}, []string{"letters"}, true},
		{"two can't be told apart", []Failure{{"count", "is 2"}}, []string{"once", "twice"}, true},
		{"no reason is known", []Failure{{"count", ""}}, []string{"letters", "once", "twice"}, true},
		{"another reason", []Failure{{"count", "is unknown"}}, nil, false},
		{"an unknown check", []Failure{{"weather", "rain"}}, nil, false},
		{"one check is missing", []Failure{{"cherry", "none"}, {"sold", "x"}}, []string{"cherry"}, false},
		{
			"one check too many",
			[]Failure{{"cherry", "none"}, {"sold", "x"}, {"count", "is 0"}, {"served", "yes"}},
			[]string{"cherry"},
			false,
		},
		{"a duplicate failure", []Failure{{"count", "is 13"}, {"count", "is 13"}}, []string{"letters"}, true},
		{"nothing was done", []Failure{{"cream", "nothing"}, {"served", "nothing"}}, []string{SkeletonName}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found := Match(test.failed, shop(t))
			if diff := cmp.Diff(test.want, names(found)); diff != "" {
				t.Fatal(diff)
			}
			for _, f := range found {
				if f.Exact != test.exact || f.Likeness < Bound || f.Likeness > 1 {
					t.Errorf("%s: likeness %v, exact %v", f.Name, f.Likeness, f.Exact)
				}
			}
		})
	}
}

// TestMatchPrefersSameChecks: a misconception that fails the same checks wins over one that fails an
// additional check, even if fewer of the observations agree.
func TestMatchPrefersSameChecks(t *testing.T) {
	t.Parallel()
	list := &mutant.List{Mutants: []mutant.Mutant{
		{Name: "same", Expectation: mutant.Expectation{Fails: map[string]string{"a": "x", "b": "x", "c": "other"}}},
		{Name: "more", Expectation: mutant.Expectation{Fails: map[string]string{"a": "x", "b": "x", "c": "x", "d": "x"}}},
	}}
	for i := range 20 { // Many misconceptions fail d, so it has little weight.
		list.Mutants = append(list.Mutants, mutant.Mutant{
			Name: fmt.Sprint("d", i), Expectation: mutant.Expectation{Fails: map[string]string{"d": "x"}},
		})
	}
	known, err := From("02-shop", list, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := []Failure{{"a", "x"}, {"b", "x"}, {"c", "x"}}
	if diff := cmp.Diff([]string{"same"}, names(Match(failed, known))); diff != "" {
		t.Error(diff)
	}
	if found := Match(failed, known[1:]); len(found) != 1 || found[0].Name != "more" ||
		found[0].Likeness < Match(failed, known)[0].Likeness {
		t.Errorf("the test is wrong: without it, the other one is found: %v", found)
	}
}

// TestMatchIgnoresOrder draws sets of failures from real labs.
func TestMatchIgnoresOrder(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for lab, known := range realLabs(t) {
		var checks []string
		for _, k := range known {
			checks = slices.AppendSeq(checks, maps.Keys(k.Fails))
		}
		slices.Sort(checks)
		checks = slices.Compact(checks)
		for range 50 {
			var failed []Failure
			for range draw.IntN(6) {
				failed = append(failed, Failure{Check: checks[draw.IntN(len(checks))]})
			}
			want := Match(failed, known)
			draw.Shuffle(len(failed), func(i, j int) { failed[i], failed[j] = failed[j], failed[i] })
			if diff := cmp.Diff(names(want), names(Match(failed, known))); diff != "" {
				t.Errorf("%s: the order of the failures matters: %s", lab, diff)
			}
			for _, f := range want {
				if f.Likeness < Bound || f.Exact != want[0].Exact {
					t.Errorf("%s: %s is named with likeness %v, exact %v beside %v", lab, f.Name, f.Likeness, f.Exact, want[0].Exact)
				}
			}
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	students := []Student{
		{"zoe", []Failure{{"count", "is 12"}}},
		{"ada", []Failure{{"count", "is 2"}}},
		{"bob", []Failure{{"count", "is 14"}}},
		{"cyd", nil},
		{"dan", []Failure{{"weather", "rain"}}},
		{"eve", []Failure{{"cherry", "none"}, {"sold", "x"}}},
	}
	var got []string
	for _, g := range Groups(students, shop(t)) {
		var which []string
		for _, k := range g.Known {
			which = append(which, k.Name)
		}
		line := strings.Join(g.Students, ", ") + ": " + strings.Join(which, " or ") + " " + g.Known[0].Lecture
		if !g.Exact {
			line += " (about)"
		}
		got = append(got, line)
	}
	want := []string{
		"bob, zoe: letters docs/lectures/02.md#count",
		"eve: cherry docs/lectures/02.md#sold (about)",
		"ada: once or twice docs/lectures/02.md#count",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromInvalidExpression(t *testing.T) {
	t.Parallel()
	list := &mutant.List{
		Mutants: []mutant.Mutant{{Name: "m", Expectation: mutant.Expectation{Fails: map[string]string{"a": "("}}}},
	}
	if _, err := From("02-shop", list, nil); err == nil ||
		!regexp.MustCompile(`wrong solution m of 02-shop, the expression for a`).MatchString(err.Error()) {
		t.Errorf("From() error = %v", err)
	}
}
