// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// FiguresFile holds the figures of all labs by name. The path is relative to the root of the repository.
const FiguresFile = "docs/reference/mutation.json"

// Figures count the results of mutants.
type Figures struct {
	Mutants    int `json:"mutants"`
	Found      int `json:"found"`
	Tortured   int `json:"torture"`
	Gaps       int `json:"gaps"`
	Survived   int `json:"survived"`
	Equivalent int `json:"equivalent"`
	Stillborn  int `json:"stillborn"`
	Undecided  int `json:"undecided"`
	// Blind are the figures of blind sets, in the order in which they were recorded.
	Blind []BlindFigures `json:"blind,omitempty"`
}

// Count counts the fates of mutants.
func Count(trials []Trial) Figures {
	f := Figures{Mutants: len(trials)}
	for _, trial := range trials {
		switch trial.Fate {
		case Found:
			f.Found++
		case FoundTortured:
			f.Tortured++
		case Stillborn:
			f.Stillborn++
		case Survived:
			f.Survived++
		case Fate(Equivalent):
			f.Equivalent++
		case Fate(Gap):
			f.Gaps++
		default:
			f.Undecided++
		}
	}
	return f
}

// Tried returns how many mutants were graded or need no grading.
func (f Figures) Tried() int { return f.Mutants - f.Undecided }

// Wrong returns how many of the tried mutants are mistakes that a check could find.
func (f Figures) Wrong() int { return f.Found + f.Tortured + f.Gaps + f.Survived }

// Share returns the percentage of the mistakes that a check found. It is empty if no mistake was tried.
func (f Figures) Share() string { return f.percent(f.Found) }

// TorturedShare returns the percentage of the mistakes that a check or the torture found.
func (f Figures) TorturedShare() string { return f.percent(f.Found + f.Tortured) }

func (f Figures) percent(found int) string {
	if f.Wrong() == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(found)/float64(f.Wrong()))
}

// String returns the figures in one line.
func (f Figures) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d mutants: %d found", f.Mutants, f.Found)
	if share := f.Share(); share != "" {
		fmt.Fprintf(&text, " (%s of the %d that are wrong)", share, f.Wrong())
	}
	for _, count := range []struct {
		number int
		what   string
	}{
		{f.Tortured, "found by the torture alone"},
		{f.Survived, "survived"},
		{f.Gaps, "known to survive"},
		{f.Equivalent, "equivalent"},
		{f.Stillborn, "stillborn"},
		{f.Undecided, "undecided"},
	} {
		if count.number > 0 {
			fmt.Fprintf(&text, ", %d %s", count.number, count.what)
		}
	}
	return text.String()
}

// LoadFigures reads the figures of all labs. The file may be missing.
func LoadFigures(root string) (map[string]Figures, error) {
	all := map[string]Figures{}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(FiguresFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the figures of mutants: %w", err)
	}
	return all, nil
}

// RecordFigures replaces the figures of one lab. Those of its blind sets stay.
func RecordFigures(root, lab string, figures Figures) error {
	return record(root, lab, func(old Figures) Figures {
		figures.Blind = old.Blind
		return figures
	})
}

// RecordBlind records the figures of a blind set of one lab, or replaces those of the set with the same name and day.
func RecordBlind(root, lab string, figures BlindFigures) error {
	return record(root, lab, func(f Figures) Figures {
		for i := range f.Blind {
			if f.Blind[i].Set == figures.Set && f.Blind[i].Written == figures.Written {
				f.Blind[i] = figures
				return f
			}
		}
		f.Blind = append(f.Blind, figures)
		return f
	})
}

func record(root, lab string, change func(Figures) Figures) error {
	all, err := LoadFigures(root)
	if err != nil {
		return err
	}
	all[lab] = change(all[lab])
	content, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(root, filepath.FromSlash(FiguresFile)), append(content, '\n'))
}
