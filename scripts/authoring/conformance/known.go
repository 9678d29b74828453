// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// known.yaml lists the tests of the sample, and the tests that the embedded cluster can't pass.
//
//go:embed known.yaml
var knownFile []byte

// Known lists what is known about the tests before they run.
type Known struct {
	// Sample has the names of the tests that CI runs: some of each SIG, and one of each part of a node.
	Sample []string `json:"sample"`
	// Impossible are tests that a cluster of one node, made of processes, can't run.
	Impossible []Reason `json:"impossible"`
	// Failing are tests that run and do not pass.
	Failing []Reason `json:"failing"`
}

// Reason explains why tests do not pass.
type Reason struct {
	// Tests is a regular expression for their names.
	Tests  string `json:"tests"`
	Reason string `json:"reason"`

	expression *regexp.Regexp
}

// LoadKnown reads known.yaml and compares it with the existing tests. An entry that matches no test is an error.
func LoadKnown(tests []Test) (*Known, error) {
	return readKnown(knownFile, tests)
}

func readKnown(content []byte, tests []Test) (*Known, error) {
	known := &Known{}
	if err := yaml.UnmarshalStrict(content, known); err != nil {
		return nil, fmt.Errorf("reading known.yaml: %w", err)
	}
	for _, name := range known.Sample {
		if !slices.Contains(tests, Test{Name: name}) {
			return nil, fmt.Errorf("known.yaml: there is no conformance test %q, which the sample names", name)
		}
	}
	for _, reasons := range [][]Reason{known.Impossible, known.Failing} {
		for i := range reasons {
			reason := &reasons[i]
			var err error
			if reason.expression, err = regexp.Compile(reason.Tests); err != nil {
				return nil, fmt.Errorf("known.yaml: %q is not a regular expression: %w", reason.Tests, err)
			}
			if reason.Reason == "" {
				return nil, fmt.Errorf("known.yaml: %q has no reason: say in a sentence why these tests do not pass", reason.Tests)
			}
			if !slices.ContainsFunc(tests, func(t Test) bool { return reason.expression.MatchString(t.Name) }) {
				return nil, fmt.Errorf("known.yaml: no conformance test has a name that matches %q", reason.Tests)
			}
		}
	}
	return known, nil
}

// Sampled returns the tests of the sample.
func (k *Known) Sampled() []Test {
	sample := make([]Test, len(k.Sample))
	for i, name := range k.Sample {
		sample[i] = Test{Name: name}
	}
	return sample
}

// Possible divides tests into those that can run here, and the results of those that can't.
func (k *Known) Possible(tests []Test) (possible []Test, impossible []Result) {
	for _, test := range tests {
		if reason := reasonFor(k.Impossible, test.Name); reason != "" {
			impossible = append(impossible, Result{Test: test.Name, Verdict: NotRun, Why: reason})
		} else {
			possible = append(possible, test)
		}
	}
	return possible, impossible
}

// Explain replaces the suite's message of a failure with the known reason. Expected reports whether there is one.
func (k *Known) Explain(result Result) (explained Result, expected bool) {
	if result.Verdict != Failed {
		return result, true
	}
	if reason := reasonFor(k.Failing, result.Test); reason != "" {
		result.Why = reason
		return result, true
	}
	return result, false
}

func reasonFor(reasons []Reason, name string) string {
	for _, reason := range reasons {
		if reason.expression.MatchString(name) {
			return reason.Reason
		}
	}
	return ""
}
