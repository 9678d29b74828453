// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import "lva.io/operators/scripts/grading/report"

// Missed mutants are recorded beside the reports, by name.
const (
	missedFile = "missed.json"
	missedKept = "which wrong solutions your tests missed"
)

// missed is how many versions of the tests have missed a mutant, and the digest of the last one.
type missed struct {
	Times int    `json:"times"`
	Tests string `json:"tests"`
}

// revealAfter is how many versions of the tests must miss a mutant before it is explained.
const revealAfter = 2

// KeepMissed records in out, the folder of the reports, which mutants were missed by the tests of the submission in
// dir, whose main package is main. It returns a function for Hide, which reports whether a mutant is explained by now.
func KeepMissed(out, dir, main string, result *report.Tests) (revealed func(name string) bool, err error) {
	kept, err := report.ReadKept[missed](out, missedFile, missedKept)
	if err != nil {
		return nil, err
	}
	digest := ""
	if result.Ours != nil { // otherwise no mutant was tried
		if digest, err = digestOf(dir, main); err != nil {
			return nil, err
		}
	}
	for _, m := range result.Mutants {
		was := kept[m.Name]
		switch {
		case m.Fate == report.MutantFound:
			delete(kept, m.Name)
		case m.Fate == report.MutantMissed && was.Tests != digest:
			kept[m.Name] = missed{Times: was.Times + 1, Tests: digest}
		}
	}
	return func(name string) bool {
		return kept[name].Times >= revealAfter
	}, report.WriteKept(out, missedFile, missedKept, kept)
}
