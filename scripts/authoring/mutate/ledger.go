// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"lva.io/operators/scripts/grading/report"
)

// Fate is what became of a mutant.
type Fate string

// The fates.
const (
	// Found means that a check failed, or that the run ended before all were decided because of the operator.
	Found Fate = "found"
	// FoundTortured means that it has full marks, and falls to the torture.
	FoundTortured Fate = "torture"
	// Stillborn means that it does not build, or no manifests come of it: a compiler finds that, and not a check.
	Stillborn Fate = "stillborn"
	// Survived means that it has full marks, and nobody has said why. Of those whose reason is known, the fate is their
	// Verdict.
	Survived Fate = "survived"
	// Undecided means that it was not tried, or that the grader failed.
	Undecided Fate = "undecided"
)

// Trial is what became of one mutant.
type Trial struct {
	ID     string `json:"id"`
	Mutant string `json:"mutant"`
	Fate   Fate   `json:"fate"`
	// Why names the checks that failed, or says how the run ended, or gives the reason of a known survivor.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Ledger keeps what became of the mutants of a solution, from run to run.
type Ledger struct {
	file    string
	mutants []Mutant
	trials  map[string]Trial
}

// OpenLedger reads the ledger in a file, which need not be there yet. What it says of mutants that no longer are is
// forgotten. Those that are known to be equivalent need no trial.
func OpenLedger(file string, mutants []Mutant, known map[string]Survivor) (*Ledger, error) {
	content, err := os.ReadFile(file)
	var trials []Trial
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		err = json.Unmarshal(content, &trials)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what became of earlier mutants (remove %s to forget that): %w", file, err)
	}
	l := &Ledger{file: file, mutants: mutants, trials: map[string]Trial{}}
	for _, trial := range trials {
		l.trials[trial.ID] = trial
	}
	for id, one := range known {
		if one.Verdict == Equivalent {
			l.trials[id] = Trial{ID: id, Mutant: one.Mutant, Fate: Fate(Equivalent), Why: one.Reason}
		}
	}
	return l, nil
}

// Record writes what became of mutants into the file.
func (l *Ledger) Record(trials ...Trial) error {
	for _, trial := range trials {
		l.trials[trial.ID] = trial
	}
	content, err := json.MarshalIndent(l.all(), "", " ")
	if err != nil {
		return err
	}
	return report.WriteFile(l.file, append(content, '\n'))
}

// all are the trials in the order of the mutants.
func (l *Ledger) all() []Trial {
	trials := []Trial{}
	for i := range l.mutants {
		if trial, tried := l.trials[l.mutants[i].ID]; tried {
			trials = append(trials, trial)
		}
	}
	return trials
}

// Open are the mutants that were tried and have yet to be found or explained.
func (l *Ledger) Open() []Mutant {
	return slices.DeleteFunc(slices.Clone(l.mutants), func(m Mutant) bool {
		trial, tried := l.trials[m.ID]
		return !tried || trial.Fate != Survived && trial.Fate != Undecided
	})
}

// Figures counts what became of all mutants. Those that were never tried are undecided.
func (l *Ledger) Figures() Figures {
	figures := Count(l.all())
	figures.Undecided += len(l.mutants) - figures.Mutants
	figures.Mutants = len(l.mutants)
	return figures
}
