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

const blindSet = `written: 2026-11-30
mutants:
- name: shouts
  mistake: Louder is better.
  edits: [{file: a.txt, find: hello, replace: HELLO}]
- name: whispers
  mistake: Nobody listens.
  edits: [{file: a.txt, find: hello, replace: ""}]
  verdict: equivalent
  reason: Indeed nobody does.
- name: asks
  mistake: It is a question.
  edits: [{file: a.txt, find: hello, replace: "hello?"}]
designs:
- name: greets
  why: The task leaves the words open.
  edits: [{file: a.txt, find: hello, replace: good morning}]
- name: sings
  why: The task leaves the voice open.
  edits: [{file: a.txt, find: hello, replace: la la}]
`

// blind creates a folder with a solution, and a file with a blind set for it.
func blind(t *testing.T, set string) (file, solution string) {
	t.Helper()
	solution, file = filepath.Join(t.TempDir(), "01-hello"), filepath.Join(t.TempDir(), "first.yaml")
	if err := os.Mkdir(solution, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{filepath.Join(solution, "a.txt"): "hello, world\n", file: set} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file, solution
}

func TestBlindSetIsAppliedAndCounted(t *testing.T) {
	file, solution := blind(t, blindSet)
	set, err := mutate.ReadBlind(file, solution)
	if err != nil {
		t.Fatal(err)
	}
	mutants := set.All(solution)
	if err := mutants[0].Apply(solution); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(solution, "a.txt")); err != nil || string(content) != "HELLO, world\n" {
		t.Errorf("content after the first mutant = %q (%v)", content, err)
	}
	if listed := mutants[0].String(); listed != "shouts: mistake: Louder is better." {
		t.Errorf("String() = %q", listed)
	}

	ledger, err := mutate.OpenLedger(filepath.Join(t.TempDir(), "ledger.json"), mutants, set.Known())
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Record(
		mutate.Trial{ID: "shouts", Fate: mutate.Found}, mutate.Trial{ID: "greets", Fate: mutate.Survived},
		mutate.Trial{ID: "sings", Fate: mutate.Found},
	); err != nil {
		t.Fatal(err)
	}
	want := mutate.BlindFigures{
		Set: "first", Written: "2026-11-30", Designs: 2, Right: 1,
		Mutants: mutate.Figures{Mutants: 3, Found: 1, Equivalent: 1, Undecided: 1},
	}
	if difference := cmp.Diff(want, set.Figures(ledger)); difference != "" {
		t.Errorf("figures (-want +got):\n%s", difference)
	}
}

func TestInvalidBlindSetIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ replace, with, want string }{
		"a text that is not there": {
			"find: hello, replace: HELLO", "find: goodbye, replace: HELLO",
			"shouts: the text to find occurs 0 times in a.txt",
		},
		"a name twice":     {"name: sings", "name: shouts", "shouts is listed twice"},
		"no edits":         {"  edits: [{file: a.txt, find: hello, replace: la la}]", "", "sings has no edits"},
		"a verdict alone":  {"  reason: Indeed nobody does.\n", "", "whispers has one of verdict and reason"},
		"another verdict":  {"verdict: equivalent", "verdict: torture", `whispers has the verdict "torture"`},
		"an unknown field": {"  why: The task leaves the voice", "  because: The task leaves the voice", "because"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(blindSet, c.replace, c.with, 1)
			if changed == blindSet {
				t.Fatal("invalid test: the case changes nothing")
			}
			file, solution := blind(t, changed)
			if _, err := mutate.ReadBlind(file, solution); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRecordBlindKeepsOtherSets(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs", "reference"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := mutate.BlindFigures{
		Set: "first", Written: "2026-11-30",
		Mutants: mutate.Figures{Mutants: 30, Found: 20}, Designs: 4, Right: 4,
	}
	second := mutate.BlindFigures{Set: "second", Written: "2026-11-30"}
	better := first
	better.Mutants.Found = 29
	for _, figures := range []mutate.BlindFigures{first, second, better} {
		if err := mutate.RecordBlind(root, "01-hello", figures); err != nil {
			t.Fatal(err)
		}
	}
	if err := mutate.RecordFigures(root, "01-hello", mutate.Figures{Mutants: 7, Found: 7}); err != nil {
		t.Fatal(err)
	}
	all, err := mutate.LoadFigures(root)
	if err != nil {
		t.Fatal(err)
	}
	want := mutate.Figures{Mutants: 7, Found: 7, Blind: []mutate.BlindFigures{better, second}}
	if difference := cmp.Diff(want, all["01-hello"]); difference != "" {
		t.Errorf("figures (-want +got):\n%s", difference)
	}
}
