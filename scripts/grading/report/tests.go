// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
)

// Names of the files of a report about a student's own tests, and the schema of the first.
const (
	TestsJSONFile = "tests.json"
	TestsHTMLFile = "tests.html"
	TestsSchema   = "operator-labs/tests/v1"
)

// Tests is the report about a student's own tests: which of our mutants (wrong solutions of the lab) they find.
type Tests struct {
	Schema string `json:"schema"`
	// Lab is the lab's name, and Title its title.
	Lab   string `json:"lab"`
	Title string `json:"title"`
	// Dir is the folder of the submission.
	Dir     string    `json:"dir"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// Outcome is Graded if all mutants were tried. Otherwise Reason explains in a sentence why not.
	Outcome     Outcome      `json:"outcome"`
	Reason      string       `json:"reason,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// Notices explain the figures.
	Notices []string `json:"notices,omitempty"`
	// Want is the percentage of mutants that the tests must find.
	Want int `json:"want"`
	// Own is the result of the tests on the student's own operator, and Ours that on the solution. Nil means that they
	// were not run there.
	Own  *TestRun `json:"own,omitempty"`
	Ours *TestRun `json:"ours,omitempty"`
	// Mutants are the wrong solutions, in the order of the list.
	Mutants []TestedMutant `json:"mutants,omitempty"`
	// Digest covers everything that decides the results on the solution and on the mutants, and OwnDigest everything
	// that decides the result on the submission's operator. A later run compares them to find out what it need not
	// repeat.
	Digest    string `json:"digest,omitempty"`
	OwnDigest string `json:"ownDigest,omitempty"`
	// Known is true if Mutants are the results of an earlier run.
	Known bool `json:"-"`
}

// TestRun is one run of all tests.
type TestRun struct {
	Passed bool `json:"passed"`
	// Tests is how many top-level tests were completed, and Skipped how many of them skipped themselves.
	Tests   int `json:"tests"`
	Skipped int `json:"skipped,omitempty"`
	// Failed are the names of the tests that failed, and Output is the end of the output if any did.
	Failed  []string `json:"failed,omitempty"`
	Output  []string `json:"output,omitempty"`
	Seconds float64  `json:"seconds"`
}

// MutantFate is the result of running the tests on a mutant.
type MutantFate string

// The fates. Only the first two count.
const (
	// MutantFound means that a test failed on the mutant, and MutantMissed that all tests passed on it.
	MutantFound  MutantFate = "found"
	MutantMissed MutantFate = "missed"
	// MutantUnseen means that no Go test of a package can find the mutant, because it changes markers, manifests or
	// package main.
	MutantUnseen MutantFate = "unseen"
	// MutantUntried means that there was no time for the mutant, that the machine failed, or that the tests do not compile
	// with it.
	MutantUntried MutantFate = "untried"
)

// TestedMutant is a wrong solution, and whether the tests found it.
type TestedMutant struct {
	// Number is its position in the list, counted from 1.
	Number int `json:"number"`
	// Name and Misconception are empty as long as they would reveal what a test should look for.
	Name          string     `json:"name,omitempty"`
	Misconception string     `json:"misconception,omitempty"`
	Fate          MutantFate `json:"fate"`
	// By is the test that found it, or the reason why it is unseen or untried.
	By      string  `json:"by,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// ReadTests reads a report that was written before. Like Read, it accepts only files that this version has written.
func ReadTests(file string) (*Tests, error) {
	content, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the report about tests: %w", err)
	}
	var t Tests
	if err := json.Unmarshal(content, &t); err != nil {
		return nil, fmt.Errorf("reading the report about tests: %w", err)
	}
	if t.Schema != TestsSchema {
		return nil, fmt.Errorf("%s is not a report about tests that this version can read: "+
			"its schema is %q and must be %q", file, Safe(t.Schema), TestsSchema)
	}
	return &t, nil
}

// Count returns the number of mutants with a fate.
func (t *Tests) Count(fate MutantFate) (n int) {
	for _, m := range t.Mutants {
		if m.Fate == fate {
			n++
		}
	}
	return n
}

// Share returns the percentage of mutants that were found, out of those that count, rounded down. It is 0 if none
// counts.
func (t *Tests) Share() int {
	found := t.Count(MutantFound)
	return 100 * found / max(1, found+t.Count(MutantMissed))
}

// FullMarks reports whether the tests pass on the student's operator and on the solution, and find as many mutants as
// they must.
func (t *Tests) FullMarks() bool {
	return t.Outcome == Graded && t.Own != nil && t.Own.Passed && t.Ours != nil && t.Ours.Passed &&
		t.Count(MutantFound) > 0 && t.Share() >= t.Want
}

// Headline returns the result in a few words.
func (t *Tests) Headline() string {
	switch {
	case t.FullMarks():
		return "Your tests find enough"
	case t.Ours != nil && !t.Ours.Passed:
		return "Your tests fail on a correct operator"
	case t.Outcome == NotBuilt:
		return "Your tests can't be graded"
	case t.Outcome != Graded:
		return t.Outcome.Headline()
	case t.Own != nil && !t.Own.Passed:
		return "Your tests fail on your own operator"
	}
	return "Your tests miss mistakes"
}

// Number returns the lab's number, as people type it.
func (t *Tests) Number() string { return (&Report{Lab: t.Lab}).Number() }

// JSON returns the sanitized report as it is written.
func (t *Tests) JSON() ([]byte, error) {
	t.Sanitize()
	content, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the report of the tests of %s: %w", t.Lab, err)
	}
	return append(content, '\n'), nil
}

// Sanitize makes everything that comes from a submission harmless for a terminal, and limits its length.
func (t *Tests) Sanitize() {
	const name, text, most, outputLines = 200, 2000, 20, 40
	lines(&t.Dir, &t.Title)
	texts(&t.Reason)
	t.Diagnostics = t.Diagnostics[:min(len(t.Diagnostics), most)]
	for i := range t.Diagnostics {
		t.Diagnostics[i].Message = shorten(Safe(t.Diagnostics[i].Message), text)
		t.Diagnostics[i].File = shorten(OneLine(t.Diagnostics[i].File), name)
	}
	t.Notices = first(t.Notices, most)
	for i := range t.Notices {
		t.Notices[i] = shorten(OneLine(t.Notices[i]), text)
	}
	for _, run := range []*TestRun{t.Own, t.Ours} {
		if run == nil {
			continue
		}
		run.Failed, run.Output = first(run.Failed, most), first(run.Output, outputLines)
		for i := range run.Failed {
			run.Failed[i] = shorten(OneLine(run.Failed[i]), name)
		}
		for i := range run.Output {
			run.Output[i] = shorten(Safe(run.Output[i]), name)
		}
		run.Seconds = seconds(run.Seconds)
	}
	for i := range t.Mutants {
		t.Mutants[i].By = shorten(OneLine(t.Mutants[i].By), name)
		t.Mutants[i].Seconds = seconds(t.Mutants[i].Seconds)
	}
	t.Seconds = seconds(t.Seconds)
}

// Summary returns the result of a run, in half a sentence.
func (r *TestRun) Summary() string {
	skipped := ""
	if r.Skipped > 0 {
		skipped = fmt.Sprintf(", %d of them skip themselves", r.Skipped)
	}
	if r.Passed {
		return fmt.Sprintf("they pass (%s%s, %.0f s)", english.Plural(r.Tests, "test", ""), skipped, r.Seconds)
	}
	return fmt.Sprintf("they fail: %s (%s%s, %.0f s)",
		strings.Join(r.Failed, ", "), english.Plural(r.Tests, "test", ""), skipped, r.Seconds)
}

// Title names a mutant, unless the name would reveal what a test should look for.
func (m *TestedMutant) Title() string {
	if m.Name == "" {
		return fmt.Sprintf("wrong solution %d", m.Number)
	}
	return fmt.Sprintf("%d: %s", m.Number, m.Name)
}

// Text describes a mutant, and whether the tests found it.
func (m *TestedMutant) Text() string {
	text := m.Title()
	if m.Misconception != "" {
		text += ". " + m.Misconception
	}
	switch {
	case m.Fate == MutantFound:
		text += " Found by " + m.By
	case m.By != "":
		text += " (" + m.By + ")"
	}
	return text
}

// Summary returns the share of mutants found, and how many do not count.
func (t *Tests) Summary() string {
	found, missed := t.Count(MutantFound), t.Count(MutantMissed)
	text := fmt.Sprintf("Your tests find %d of %d wrong solutions (%d %%). They should find %d %%.",
		found, found+missed, t.Share(), t.Want)
	if n := t.Count(MutantUntried); n > 0 {
		text += fmt.Sprintf(" Not tried: %d.", n)
	}
	if n := t.Count(MutantUnseen); n > 0 {
		text += fmt.Sprintf(" Not counted: %d that change only markers, manifests or package main, "+
			"which no Go test can see.", n)
	}
	return text
}
