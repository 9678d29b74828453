// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/process"
)

// Test is one of the conformance tests.
type Test struct {
	// Name is the test's full name, as Ginkgo reports it: "[sig-apps] Job should … [Conformance]".
	Name string `json:"codename"`
}

var sig = regexp.MustCompile(`^\[(sig-[a-z-]+)\]`)

// SIG is the special interest group that the test belongs to, such as sig-apps.
func (t Test) SIG() string {
	if found := sig.FindStringSubmatch(t.Name); found != nil {
		return found[1]
	}
	return "sig-unknown"
}

// Serial reports whether the test must not run in parallel with others.
func (t Test) Serial() bool {
	return strings.Contains(t.Name, "[Serial]") || strings.Contains(t.Name, "[Disruptive]")
}

// Suite is the program that has all conformance tests.
type Suite struct {
	// Program is the test binary of k8s.io/kubernetes/test/e2e.
	Program string
}

// Tests lists all conformance tests, in the order of their names.
func (s Suite) Tests(ctx context.Context) ([]Test, error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	defer scope.Close()
	var listed, stderr bytes.Buffer
	p, err := scope.Start(process.Spec{
		Name: "the conformance suite", Path: s.Program, Args: []string{"--list-conformance-tests"},
		Dir: scope.Dir, Stdout: &listed, Stderr: &stderr,
	})
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, fmt.Errorf("listing the conformance tests: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var tests []Test
	if err := yaml.Unmarshal(listed.Bytes(), &tests); err != nil {
		return nil, fmt.Errorf("reading the list of conformance tests: %w", err)
	}
	slices.SortFunc(tests, func(a, b Test) int { return strings.Compare(a.Name, b.Name) })
	return tests, nil
}

// Focus returns the tests whose names match a regular expression. It is an error if none does.
func Focus(tests []Test, expression string) ([]Test, error) {
	focus, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("the focus is not a regular expression: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(tests), func(t Test) bool { return !focus.MatchString(t.Name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no conformance test has a name that matches %q", expression)
	}
	return chosen, nil
}
