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

// Fate is the result of a mutant.
type Fate string

// The fates.
const (
	// Found means that a check failed, or that the operator ended the run before all checks were decided.
	Found Fate = "found"
	// FoundTortured means that the mutant gets full marks, and that the torture finds it.
	FoundTortured Fate = "torture"
	// Stillborn means that the mutant does not build, or that no manifests can be generated from it. A compiler finds such
	// a mistake, so a check need not.
	Stillborn Fate = "stillborn"
	// Survived means that the mutant gets full marks for an unknown reason. If the reason is known, the fate is the
	// mutant's Verdict.
	Survived Fate = "survived"
	// Undecided means that it was not tried, or that the grader failed.
	Undecided Fate = "undecided"
)

// Trial is the result of one mutant.
type Trial struct {
	ID     string `json:"id"`
	Mutant string `json:"mutant"`
	Fate   Fate   `json:"fate"`
	// Why names the failed checks, describes how the run ended, or gives the reason of a known survivor.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Ledger keeps the results of a solution's mutants from run to run.
type Ledger struct {
	file    string
	mutants []Mutant
	trials  map[string]Trial
}

// OpenLedger reads the ledger in a file, which may be missing. It drops the entries of mutants that no longer exist.
// Mutants that are known to be equivalent need no trial.
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
		return nil, fmt.Errorf("reading the results of earlier mutants (remove %s to discard them): %w", file, err)
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

// Record writes the results of mutants into the file.
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

// all returns the trials in the order of the mutants.
func (l *Ledger) all() []Trial {
	trials := []Trial{}
	for i := range l.mutants {
		if trial, tried := l.trials[l.mutants[i].ID]; tried {
			trials = append(trials, trial)
		}
	}
	return trials
}

// Open returns the mutants that were tried and have yet to be found or explained.
func (l *Ledger) Open() []Mutant {
	return slices.DeleteFunc(slices.Clone(l.mutants), func(m Mutant) bool {
		trial, tried := l.trials[m.ID]
		return !tried || trial.Fate != Survived && trial.Fate != Undecided
	})
}

// Figures counts the results of all mutants. Mutants that were never tried are undecided.
func (l *Ledger) Figures() Figures {
	figures := Count(l.all())
	figures.Undecided += len(l.mutants) - figures.Mutants
	figures.Mutants = len(l.mutants)
	return figures
}
