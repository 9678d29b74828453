// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

// A mutant is explained after two versions of the tests have missed it, and not after two runs of the same version.
func TestMutantIsExplainedAfterTwoMisses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/icecream\n\ngo 1.26\n")
	write("cmd/main.go", "package main\n\nfunc main() {}\n")
	out := t.TempDir()
	result := func(fate report.MutantFate) *report.Tests {
		return &report.Tests{
			Ours: &report.TestRun{Passed: true}, Mutants: []report.TestedMutant{{Name: "keeps-two", Fate: fate}},
		}
	}
	for i, step := range []struct {
		tests    string
		fate     report.MutantFate
		revealed bool
	}{
		{"// one", report.MutantMissed, false},
		{"// one", report.MutantMissed, false},
		{"// two", report.MutantUntried, false},
		{"// two", report.MutantMissed, true},
		{"// two", report.MutantFound, false},
		{"// one", report.MutantMissed, false},
	} {
		write("a/a_test.go", "package a\n\n"+step.tests+"\n")
		revealed, err := KeepMissed(out, dir, "", result(step.fate))
		if err != nil || revealed("keeps-two") != step.revealed || revealed("another") {
			t.Errorf("step %d: revealed = %t, want %t (error %v)", i, revealed("keeps-two"), step.revealed, err)
		}
	}
}
