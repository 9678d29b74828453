// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// Verdict is how a test ended.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed"
	Failed Verdict = "failed"
	// NotRun means that this cluster can't provide what the test needs, according to the test itself or to known.yaml.
	NotRun Verdict = "not run"
)

// Result is the result of one test.
type Result struct {
	Test    string  `json:"test"`
	Verdict Verdict `json:"verdict"`
	// Why explains in a sentence why the test did not pass, or was not run.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Ledger keeps results from run to run, in a file.
type Ledger struct {
	file    string
	results map[string]Result
}

// OpenLedger reads the results of earlier runs. The file may be missing.
func OpenLedger(file string) (*Ledger, error) {
	l := &Ledger{file: file, results: map[string]Result{}}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	var results []Result
	if err := json.Unmarshal(content, &results); err != nil {
		return nil, fmt.Errorf("reading earlier results (remove %s to discard them): %w", file, err)
	}
	for _, result := range results {
		l.results[result.Test] = result
	}
	return l, nil
}

// Record writes a result into the file.
func (l *Ledger) Record(result Result) error {
	l.results[result.Test] = result
	return l.write(l.file)
}

func (l *Ledger) write(file string) error {
	content, err := json.MarshalIndent(l.Results(), "", " ")
	if err != nil {
		return err
	}
	return report.WriteFile(file, append(content, '\n'))
}

// Results returns the known results, in the order of the tests' names.
func (l *Ledger) Results() []Result {
	results := make([]Result, 0, len(l.results))
	for _, name := range slices.Sorted(maps.Keys(l.results)) {
		results = append(results, l.results[name])
	}
	return results
}

// Remaining returns the tests that have not passed yet.
func (l *Ledger) Remaining(tests []Test) []Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t Test) bool { return l.results[t.Name].Verdict == Passed })
}

// ResultsFile is the file in the documentation with the results, relative to the root of the repository.
const ResultsFile = "docs/reference/conformance.json"

// Publish writes the results into the documentation of the repository.
func (l *Ledger) Publish(root string) error {
	results := l.Results()
	for i := range results {
		results[i].Seconds = 0 // they differ from run to run
	}
	content, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(root, filepath.FromSlash(ResultsFile)), append(content, '\n'))
}

// Published returns the results in the documentation of the repository.
func Published(root string) ([]Result, error) {
	l, err := OpenLedger(filepath.Join(root, filepath.FromSlash(ResultsFile)))
	if err != nil {
		return nil, err
	}
	return l.Results(), nil
}

// Figures count the results of a SIG.
type Figures struct {
	SIG                    string
	Passed, Failed, NotRun int
}

// All is how many tests the SIG has.
func (f Figures) All() int { return f.Passed + f.Failed + f.NotRun }

// Count counts results by SIG, in the order of their names.
func Count(results []Result) []Figures {
	counted := map[string]*Figures{}
	for _, result := range results {
		sig := Test{Name: result.Test}.SIG()
		if counted[sig] == nil {
			counted[sig] = &Figures{SIG: sig}
		}
		switch result.Verdict {
		case Passed:
			counted[sig].Passed++
		case NotRun:
			counted[sig].NotRun++
		default:
			counted[sig].Failed++
		}
	}
	var all []Figures
	for _, sig := range slices.Sorted(maps.Keys(counted)) {
		all = append(all, *counted[sig])
	}
	return all
}

// Summary describes in a sentence how many of the tests passed.
func Summary(results []Result) string {
	var sum Figures
	for _, f := range Count(results) {
		sum.Passed, sum.Failed, sum.NotRun = sum.Passed+f.Passed, sum.Failed+f.Failed, sum.NotRun+f.NotRun
	}
	parts := []string{fmt.Sprintf("%d of %d passed", sum.Passed, sum.All())}
	if sum.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", sum.Failed))
	}
	if sum.NotRun > 0 {
		parts = append(parts, fmt.Sprintf("%d were not run", sum.NotRun))
	}
	return strings.Join(parts, ", ")
}
