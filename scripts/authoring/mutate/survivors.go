// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// SurvivorsFile is the file, in a solution's folder, with the list of mutants that have full marks.
const SurvivorsFile = "survivors.yaml"

// Verdict is the reason why a mutant has full marks.
type Verdict string

// The verdicts.
const (
	// Equivalent mutants are correct: they behave the same, or the lab has no way to observe the difference.
	Equivalent Verdict = "equivalent"
	// Tortured mutants are incorrect, and only the torture finds them.
	Tortured Verdict = "torture"
	// Gap mutants are incorrect, and nothing finds them.
	Gap Verdict = "gap"
)

// Survivor is a mutant that has full marks.
type Survivor struct {
	// ID and Mutant identify the mutant. Mutant is the result of Change.
	ID      string  `json:"id"`
	Mutant  string  `json:"mutant"`
	Verdict Verdict `json:"verdict"`
	// Reason explains the verdict in a sentence.
	Reason string `json:"reason"`
}

// Survivors reads the list in a solution's folder, which may be missing. Each listed mutant must be one of the
// solution's.
func Survivors(solution string, mutants []Mutant) (map[string]Survivor, error) {
	file := filepath.Join(solution, SurvivorsFile)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list struct {
		Survivors []Survivor `json:"survivors"`
	}
	if err == nil {
		err = yaml.UnmarshalStrict(content, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mutants that survive: %w", err)
	}
	byID := map[string]Survivor{}
	var problems []error
	for _, survivor := range list.Survivors {
		if _, twice := byID[survivor.ID]; twice {
			problems = append(problems, fmt.Errorf("the mutant %s is listed twice", survivor.ID))
		}
		byID[survivor.ID] = survivor
		problems = append(problems, survivor.check(mutants))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return byID, nil
}

func (s *Survivor) check(mutants []Mutant) error {
	i := slices.IndexFunc(mutants, func(m Mutant) bool { return m.ID == s.ID })
	switch {
	case i < 0:
		return fmt.Errorf("the solution no longer has a mutant %q (%s): "+
			"remove the entry, and try the current mutants with `lab mutate`", s.ID, s.Mutant)
	case mutants[i].Change() != s.Mutant:
		return fmt.Errorf("the mutant %s is called %q, and is %q", s.ID, s.Mutant, mutants[i].Change())
	case !slices.Contains([]Verdict{Equivalent, Tortured, Gap}, s.Verdict):
		return fmt.Errorf("the mutant %s has the verdict %q: write %s, %s or %s", s.ID, s.Verdict, Equivalent, Tortured, Gap)
	case s.Reason == "":
		return fmt.Errorf("the mutant %s has no reason: say in a sentence why it has full marks", s.ID)
	}
	return nil
}
