// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
)

// These are the operators of a blind set, whose changes were chosen by people.
const (
	Mistake Operator = "mistake" // a wrong solution
	Design  Operator = "design"  // a correct solution that differs from ours
)

// BlindSet is a set of solutions by an author who has seen the task and the lecture of a lab, but not its checks.
type BlindSet struct {
	// Name is the name of the set's file, without its folder and extension.
	Name string `json:"-"`
	// Written is the day, as 2006-01-02.
	Written string  `json:"written"`
	Mutants []Blind `json:"mutants"`
	Designs []Blind `json:"designs"`
}

// Blind is a solution of a blind set.
type Blind struct {
	// Name is in kebab-case and occurs once in the set.
	Name string `json:"name"`
	// Mistake, Breaks and Shows describe a mutant: what its author believes, which sentence of the task it breaks, and how
	// a user notices.
	Mistake string `json:"mistake,omitempty"`
	Breaks  string `json:"breaks,omitempty"`
	Shows   string `json:"shows,omitempty"`
	// Why describes a design: how it differs from the solution, and why it is correct.
	Why   string        `json:"why,omitempty"`
	Edits []mutant.Edit `json:"edits"`
	// Verdict is added in a review of a mutant with full marks, or of a design without full marks. It is Equivalent if the
	// author was wrong about the solution, or else Gap. Reason explains the verdict in a sentence.
	Verdict Verdict `json:"verdict,omitempty"`
	Reason  string  `json:"reason,omitempty"`
}

// ReadBlind reads a blind set for the solution in a folder.
func ReadBlind(file, solution string) (*BlindSet, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a blind set: %w", err)
	}
	set := &BlindSet{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	if err := yaml.UnmarshalStrict(content, set); err != nil {
		return nil, fmt.Errorf("reading the blind set %s: %w", file, err)
	}
	var problems []error
	seen := map[string]bool{}
	for _, one := range set.all() {
		if seen[one.Name] {
			problems = append(problems, fmt.Errorf("%s is listed twice", one.Name))
		}
		seen[one.Name] = true
		problems = append(problems, one.check(solution))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return set, nil
}

// all returns the set's mutants and designs.
func (s *BlindSet) all() []Blind { return slices.Concat(s.Mutants, s.Designs) }

func (b *Blind) check(solution string) error {
	switch {
	case b.Name == "" || b.Mistake == "" && b.Why == "":
		return fmt.Errorf("an entry lacks a name, or both mistake and why (%q)", b.Name)
	case len(b.Edits) == 0:
		return fmt.Errorf("%s has no edits, so it is the solution", b.Name)
	case (b.Verdict == "") != (b.Reason == ""):
		return fmt.Errorf("%s has one of verdict and reason: add the other one", b.Name)
	case b.Verdict != "" && b.Verdict != Equivalent && b.Verdict != Gap:
		return fmt.Errorf("%s has the verdict %q: write %s or %s", b.Name, b.Verdict, Equivalent, Gap)
	}
	for _, edit := range b.Edits {
		content, err := os.ReadFile(filepath.Join(solution, filepath.FromSlash(edit.File)))
		if err == nil {
			_, err = edit.Apply(content)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return nil
}

// All returns the set's solutions as mutants: first its mutants, then its designs.
func (s *BlindSet) All(solution string) (all []Mutant) {
	add := func(list []Blind, operator Operator) {
		for _, one := range list {
			description := one.Mistake
			if operator == Design {
				description = one.Why
			}
			all = append(all, Mutant{
				ID: one.Name, Solution: filepath.Base(solution), File: one.Edits[0].File, Operator: operator, After: description,
				edits: one.Edits,
			})
		}
	}
	add(s.Mutants, Mistake)
	add(s.Designs, Design)
	return all
}

// Known returns the set's solutions that have a verdict, by name.
func (s *BlindSet) Known() map[string]Survivor {
	known := map[string]Survivor{}
	for _, one := range s.all() {
		if one.Verdict != "" {
			known[one.Name] = Survivor{ID: one.Name, Verdict: one.Verdict, Reason: one.Reason}
		}
	}
	return known
}

// BlindFigures count the results of a blind set.
type BlindFigures struct {
	Set     string `json:"set"`
	Written string `json:"written"`
	// Mutants are counted in the same way as automatic mutants.
	Mutants Figures `json:"mutants"`
	// Designs is how many correct designs there are, and Right how many of them have full marks. Designs with the verdict
	// Equivalent, which turned out to be incorrect, are left out.
	Designs int `json:"designs"`
	Right   int `json:"right"`
}

// Figures counts the results of the set from its ledger.
func (s *BlindSet) Figures(l *Ledger) BlindFigures {
	figures := BlindFigures{Set: s.Name, Written: s.Written}
	var mutants []Trial
	for i := range l.mutants {
		m := &l.mutants[i]
		trial, tried := l.trials[m.ID]
		switch {
		case m.Operator != Design && tried:
			mutants = append(mutants, trial)
		case m.Operator != Design:
			mutants = append(mutants, Trial{ID: m.ID, Fate: Undecided})
		case trial.Fate == Fate(Equivalent):
		default:
			figures.Designs++
			if trial.Fate == Survived {
				figures.Right++
			}
		}
	}
	figures.Mutants = Count(mutants)
	return figures
}

// String returns the figures in one line.
func (f BlindFigures) String() string {
	return fmt.Sprintf("%s; %d of %d right designs have full marks", f.Mutants, f.Right, f.Designs)
}
