// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package mutant reads the mutants of a lab: each is the solution with a small edit, a named misconception, and the
// checks that must find it. It does not grade them.
package mutant

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/grading/report"
)

// File is the name of the list of mutants in a solution's folder.
const File = "mutants.yaml"

// List has everything besides the solution that certifies a lab's graders.
type List struct {
	Skeleton Expectation `json:"skeleton"`
	Mutants  []Mutant    `json:"mutants"`
}

// Expectation lists the checks that must fail: exactly these, each with a regular expression that matches what it
// observed. Checks that are skipped because of these failures are not listed.
type Expectation struct {
	Fails map[string]string `json:"fails"`
	// Explained is the failed check that a student is shown first. It is left out if only one fails.
	Explained string `json:"explained,omitempty"`
	// Outcome is set if the submission can't be graded: the run ends with this outcome of a report, and no check fails.
	// The skeleton of a lab that begins nearly empty may be not-started. A mutant that exits by itself may be crashed.
	// Empty: the submission is graded.
	Outcome string `json:"outcome,omitempty"`
}

// Mutant is an incorrect solution.
type Mutant struct {
	// Name is in kebab-case. Misconception is one sentence about what the author of such code believes.
	Name          string `json:"name"`
	Misconception string `json:"misconception"`
	Edits         []Edit `json:"edits"`
	Expectation
	// Torture is a regular expression that matches what was observed when the torture found the mutant. Such a mutant gets
	// full marks when it is graded. Only a sweep over all crashes and bad days finds it.
	Torture string `json:"torture,omitempty"`
	// Untestable is a sentence with the reason why no test of the code can find the mutant although it changes code. `lab
	// tests` does not count such a mutant. Empty: a test can find it.
	Untestable string `json:"untestable,omitempty"`
}

// Edit replaces a text that occurs exactly once in a file of the solution.
type Edit struct {
	File    string `json:"file"`
	Find    string `json:"find"`
	Replace string `json:"replace"`
}

// Load reads the list in a solution's folder.
func Load(solution string) (*List, error) {
	file := filepath.Join(solution, File)
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the mutants: %w", err)
	}
	list := &List{}
	if err := yaml.UnmarshalStrict(content, list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if err := errors.Join(list.problems()...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

func (l *List) problems() []error {
	var problems []error
	switch {
	case l.Skeleton.Outcome == "":
		problems = append(problems, l.Skeleton.check("the skeleton"))
	case len(l.Skeleton.Fails) > 0:
		problems = append(problems,
			errors.New("the skeleton is not graded, so it fails no checks: leave out fails or outcome"))
	}
	seen := map[string]bool{}
	for _, m := range l.Mutants {
		if seen[m.Name] {
			problems = append(problems, fmt.Errorf("the mutant %s is listed twice", m.Name))
		}
		seen[m.Name] = true
		if m.Misconception == "" {
			problems = append(problems,
				fmt.Errorf("the mutant %s has no misconception: describe in one sentence what a student gets wrong", m.Name))
		}
		if len(m.Edits) == 0 {
			problems = append(problems, fmt.Errorf("the mutant %s has no edits, so it is the solution", m.Name))
		}
		problems = append(problems, m.check())
	}
	return problems
}

// crashed is the outcome of a run whose operator ends by itself.
const crashed = "crashed"

func (m *Mutant) check() error {
	subject := "the mutant " + m.Name
	if m.Outcome != "" {
		if m.Outcome != crashed || len(m.Fails) > 0 || m.Torture != "" {
			return fmt.Errorf("%s has an outcome: the only outcome of a mutant is crashed, without fails and torture", subject)
		}
		return nil
	}
	if m.Torture == "" {
		return m.Expectation.check(subject)
	}
	if len(m.Fails) > 0 {
		return fmt.Errorf("%s fails checks, so it need not be tortured: leave out fails or torture", subject)
	}
	if _, err := regexp.Compile(m.Torture); err != nil {
		return fmt.Errorf("%s: the expression for the torture: %w", subject, err)
	}
	return nil
}

func (e Expectation) check(subject string) error {
	if len(e.Fails) == 0 {
		return fmt.Errorf("%s fails no check, so it proves nothing", subject)
	}
	var problems []error
	for id, pattern := range e.Fails {
		if _, err := regexp.Compile(pattern); err != nil {
			problems = append(problems, fmt.Errorf("%s: the expression for %s: %w", subject, id, err))
		}
	}
	switch _, fails := e.Fails[e.Explained]; {
	case e.Explained != "" && !fails:
		problems = append(problems,
			fmt.Errorf("%s: %s is explained, but does not fail: name a check that fails", subject, e.Explained))
	case e.Explained == "" && len(e.Fails) > 1:
		problems = append(problems, fmt.Errorf("%s fails %d checks: name the one that a student is shown first in explained",
			subject, len(e.Fails)))
	}
	return errors.Join(problems...)
}

// Deviations returns the differences between a report and what is expected. Exactly the expected checks must fail, for
// the expected reasons, and the report must explain the expected one first. The result is empty if there is no
// difference.
func (e Expectation) Deviations(result *report.Report) []string {
	var all []string
	if e.Outcome != "" {
		if string(result.Outcome) != e.Outcome {
			all = append(all, fmt.Sprintf("the outcome is %s, want %s", result.Outcome, e.Outcome))
		}
		return all
	}
	if result.Outcome != report.Graded {
		all = append(all, fmt.Sprintf("the outcome is %s: %s", result.Outcome, result.Reason))
		for _, d := range result.Diagnostics {
			all = append(all, strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
		}
		return append(all, result.OperatorLog...)
	}
	if len(e.Fails) == 0 && !result.Complete() {
		all = append(all, fmt.Sprintf("it has %s (seed %d)", result.Summary(), result.Seed))
	}
	for _, check := range result.Checks {
		pattern, must := e.Fails[check.ID]
		switch {
		case must && check.Status == report.Failed:
			if !regexp.MustCompile(pattern).MatchString(check.Observed) {
				all = append(all, fmt.Sprintf("%s fails for a reason other than %q:\n%s", check.ID, pattern, explain(check)))
			}
		case must:
			all = append(all, fmt.Sprintf("%s must fail, but it was %s %s", check.ID, check.Status, check.Reason))
		case check.Status == report.Failed:
			all = append(all, fmt.Sprintf("%s must not fail:\n%s", check.ID, explain(check)))
		}
	}
	if explained := result.Explained(); explained != nil && e.Explained != "" && explained.ID != e.Explained {
		all = append(all, fmt.Sprintf("%s is explained first, want %s", explained.ID, e.Explained))
	}
	return all
}

func explain(check report.Check) string {
	return "  expected: " + check.Expected + "\n  observed: " + check.Observed +
		"\n  evidence: " + strings.Join(check.Evidence, "\n            ")
}

// Apply edits the copy of the solution in a folder.
func (m *Mutant) Apply(dir string) error {
	for i, edit := range m.Edits {
		file := filepath.Join(dir, filepath.FromSlash(edit.File))
		before, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("the mutant %s, edit %d: %w", m.Name, i+1, err)
		}
		after, err := edit.Apply(before)
		if err != nil {
			return fmt.Errorf("the mutant %s, edit %d: %w", m.Name, i+1, err)
		}
		if err := os.WriteFile(file, after, 0o644); err != nil {
			return fmt.Errorf("the mutant %s, edit %d: %w", m.Name, i+1, err)
		}
	}
	return nil
}

// Apply edits the content of the edit's file. It is an error if the text does not occur exactly once. In that case the
// solution has changed, and the mutant must change, too.
func (e Edit) Apply(content []byte) ([]byte, error) {
	if n := bytes.Count(content, []byte(e.Find)); e.Find == "" || n != 1 {
		return nil, fmt.Errorf("the text to find occurs %d times in %s, and must occur once; has the solution changed?",
			n, e.File)
	}
	return bytes.Replace(content, []byte(e.Find), []byte(e.Replace), 1), nil
}
