// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/authoring/mutate"
)

// shop returns a solution with three mutants, and the content of its survivors.yaml.
func shop(t *testing.T, survivors string) (dir string, mutants []mutate.Mutant) {
	t.Helper()
	dir = lay(t, map[string]string{"shop.go": "package shop\n" + task + "func f(n int) int { return n + 7 }\n"})
	mutants = generate(t, dir)
	if len(mutants) != 3 {
		t.Fatalf("invalid test: got the mutants %v, want three", changes(mutants))
	}
	if survivors != "" {
		write(t, dir, mutate.SurvivorsFile,
			strings.NewReplacer("ID", mutants[0].ID, "MUTANT", mutants[0].Change()).Replace(survivors))
	}
	return dir, mutants
}

const survivor = `survivors:
- {id: "ID", mutant: "MUTANT", verdict: gap, reason: Nobody counts to eight.}
`

func TestSurvivorListErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, find, replace, want string }{
		{name: "nothing"},
		{"an unknown field", "verdict:", "opinion:", `unknown field "opinion"`},
		{
			"a mutant that no longer exists", `id: "ID"`, "id: cafe0000",
			`the solution no longer has a mutant "cafe0000" (shop.go f, `,
		},
		{"a mutant with another name", "MUTANT", "n + 7 → n + 8", `is called "n + 7 → n + 8", and is "shop.go f, `},
		{"an unknown verdict", "gap", "harmless", `has the verdict "harmless": write equivalent, torture or gap`},
		{"no reason", "Nobody counts to eight.", `""`, "has no reason: say in a sentence"},
		{
			"a mutant listed twice", "survivors:",
			`survivors: [{id: "ID", mutant: "MUTANT", verdict: gap, reason: x}, {id: "ID", mutant: "MUTANT", verdict: gap, reason: x}]`,
			"is listed twice",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list := strings.Replace(survivor, test.find, test.replace, 1)
			if strings.HasSuffix(test.want, "twice") {
				list, _, _ = strings.Cut(list, "\n")
			}
			dir, mutants := shop(t, list)
			known, err := mutate.Survivors(dir, mutants)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("want an error with %q, got %v", test.want, err)
				}
				return
			}
			want := map[string]mutate.Survivor{mutants[0].ID: {
				ID: mutants[0].ID, Mutant: mutants[0].Change(), Verdict: mutate.Gap, Reason: "Nobody counts to eight.",
			}}
			if diff := cmp.Diff(want, known); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	dir, mutants := shop(t, "")
	if known, err := mutate.Survivors(dir, mutants); err != nil || len(known) != 0 {
		t.Errorf("Survivors() without a list = %v, %v", known, err)
	}
}

func TestLedgerResumesLastRun(t *testing.T) {
	t.Parallel()
	_, mutants := shop(t, "")
	file := filepath.Join(t.TempDir(), "02-shop.json")
	known := map[string]mutate.Survivor{}
	open := func(want ...mutate.Mutant) *mutate.Ledger {
		t.Helper()
		ledger, err := mutate.OpenLedger(file, mutants, known)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(changes(want), changes(ledger.Open())); diff != "" {
			t.Errorf("open mutants (-want +got)\n%s", diff)
		}
		return ledger
	}
	record := func(ledger *mutate.Ledger, trials ...mutate.Trial) {
		t.Helper()
		if err := ledger.Record(trials...); err != nil {
			t.Fatal(err)
		}
	}
	record(open(),
		mutate.Trial{ID: mutants[0].ID, Fate: mutate.Undecided}, mutate.Trial{ID: mutants[2].ID, Fate: mutate.Survived},
		mutate.Trial{ID: "cafe0000", Fate: mutate.Survived})
	ledger := open(mutants[0], mutants[2])
	if got, want := ledger.Figures(), (mutate.Figures{Mutants: 3, Survived: 1, Undecided: 2}); !cmp.Equal(got, want) {
		t.Errorf("Figures() = %+v, want %+v", got, want)
	}
	record(ledger, mutate.Trial{ID: mutants[0].ID, Fate: mutate.Found, Why: "places"})
	record(open(mutants[2]),
		mutate.Trial{ID: mutants[1].ID, Fate: mutate.Survived},
		mutate.Trial{ID: mutants[2].ID, Fate: mutate.Fate(mutate.Gap)})
	open(mutants[1])
	known[mutants[1].ID] = mutate.Survivor{ID: mutants[1].ID, Verdict: mutate.Equivalent}
	if got, want := open().Figures(), (mutate.Figures{
		Mutants: 3, Found: 1, Gaps: 1, Equivalent: 1,
	}); !cmp.Equal(got, want) {
		t.Errorf("Figures() = %+v, want %+v", got, want)
	}

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mutate.OpenLedger(file, mutants, known); err == nil || !strings.Contains(err.Error(), "remove "+file) {
		t.Errorf("OpenLedger() of a broken file: error = %v", err)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	var trials []mutate.Trial
	for fate, n := range map[mutate.Fate]int{
		mutate.Found: 18, mutate.FoundTortured: 1, mutate.Survived: 1, mutate.Fate(mutate.Gap): 2,
		mutate.Fate(mutate.Equivalent): 5, mutate.Stillborn: 4, mutate.Undecided: 3,
	} {
		for range n {
			trials = append(trials, mutate.Trial{Fate: fate})
		}
	}
	figures := mutate.Count(trials)
	if want := (mutate.Figures{
		Mutants: 34, Found: 18, Tortured: 1, Survived: 1, Gaps: 2, Equivalent: 5, Stillborn: 4, Undecided: 3,
	}); !cmp.Equal(figures, want) {
		t.Errorf("Figures() = %+v, want %+v", figures, want)
	}
	const want = "34 mutants: 18 found (81.8 % of the 22 that are wrong), " +
		"1 found by the torture alone, 1 survived, 2 known to survive, " +
		"5 equivalent, 4 stillborn, 3 undecided"
	if got := figures.String(); got != want {
		t.Errorf("String() =\n%s\nwant\n%s", got, want)
	}
	if got := (mutate.Figures{
		Mutants: 4, Equivalent: 3, Stillborn: 1,
	}).String(); got != "4 mutants: 0 found, 3 equivalent, 1 stillborn" {
		t.Errorf("String() without wrong mutants = %s", got)
	}

	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(mutate.FiguresFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, lab := range []string{"01-icecream", "02-shop", "02-shop"} {
		if err := mutate.RecordFigures(root, lab, figures); err != nil {
			t.Fatal(err)
		}
		figures.Found++
	}
	recorded, err := mutate.LoadFigures(root)
	if err != nil || len(recorded) != 2 || recorded["01-icecream"].Found != 18 || recorded["02-shop"].Found != 20 {
		t.Errorf("recorded figures = %v, %v", recorded, err)
	}
}
