// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package stagetest provides an embedded cluster and other helpers for tests of stages.
package stagetest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/submission"
)

// Builder opens the submission in a folder, so that a test can build it and install it on a stage. It is removed after
// the test.
func Builder(tb testing.TB, dir string) *submission.Builder {
	tb.Helper()
	opened, err := submission.Open(dir, "")
	if err != nil {
		tb.Fatal(err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := scope.Close(); err != nil {
			tb.Error(err)
		}
	})
	repo, err := checkout.Find()
	if err != nil {
		tb.Fatal(err)
	}
	builder := &submission.Builder{Submission: opened, Scope: scope}
	if builder.ControllerGen, err = repo.ControllerGen(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return builder
}

// ProblemOf returns the *submission.Problem in an error. The test fails if there is none.
func ProblemOf(tb testing.TB, err error) *submission.Problem {
	tb.Helper()
	problem, ok := errors.AsType[*submission.Problem](err)
	if !ok {
		tb.Fatalf("error = %v, want a *submission.Problem", err)
	}
	return problem
}

// Objects returns the objects in YAML.
func Objects(tb testing.TB, content string) (objects []*unstructured.Unstructured) {
	tb.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			tb.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
