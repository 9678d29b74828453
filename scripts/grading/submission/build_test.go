// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

// The error of a submission that can't be built contains the reason and advice, whether or not modules are downloaded
// first.
func TestBuildProblems(t *testing.T) {
	t.Parallel()
	const (
		calls    = "-- cmd/main.go --\npackage main\n\nfunc main() { three() }\n"
		makefile = "-- Makefile --\nbuild:\n\tCGO_ENABLED=1 go build -tags netgo,production -o bin/manager ./cmd\n"
	)
	for _, test := range []struct {
		name, files, reason string
		// diagnostics are the beginnings of the messages.
		diagnostics []string
		// fetch is true if Fetch reports the problem.
		fetch bool
	}{
		{
			"a newer Go", strings.Replace(samples.Module, "1.26", "1.99", 1) + "-- cmd/main.go --\n" + samples.Program,
			"its go.mod asks for a newer Go than the installed one: upgrade Go, or lower the go line",
			[]string{"go: go.mod requires go >= 1.99"},
			true,
		},
		{
			"no go.sum", samples.Module + "\nrequire sigs.k8s.io/yaml v1.6.0\n" +
				"-- cmd/main.go --\npackage main\n\nimport _ \"sigs.k8s.io/yaml\"\n\nfunc main() {}\n",
			"its go.sum lacks modules that it needs: run `go mod tidy` in its folder",
			[]string{"cmd/main.go:3:8: missing go.sum entry"},
			true,
		},
		{
			"a module that go.mod does not name", samples.Module +
				"-- cmd/main.go --\npackage main\n\nimport _ \"sigs.k8s.io/yaml\"\n\nfunc main() {}\n",
			"its go.mod or go.sum does not fit its code: run `go mod tidy` in its folder",
			[]string{"cmd/main.go:3:8: cannot find module"},
			true,
		},
		{
			"a package in a folder whose name is not UTF-8", samples.Module + "-- cmd/main.go --\n" + samples.Program +
				"-- Entw\xfcrfe/entwurf.go --\npackage entwurf\n",
			"it has an import path that Go does not allow: rename the folder that the path names, or correct the import",
			[]string{`malformed import path "example.com/icecream/Entw\xfcrfe": invalid UTF-8`},
			true,
		},
		{
			"a file that needs a build tag", samples.Module + calls + makefile +
				"-- cmd/three.go --\n//go:build production\n\npackage main\n\nfunc three() {}\n",
			"it does not compile",
			[]string{
				"cmd/main.go:3:15: undefined: three",
				"cmd/three.go: this file is left out, because grading sets no build tags",
			},
			false,
		},
		{
			"a file that needs cgo", samples.Module + calls + makefile +
				"-- cmd/three.go --\npackage main\n\nimport \"C\"\n\nfunc three() {}\n",
			"it does not compile",
			[]string{
				"cmd/main.go:3:15: undefined: three",
				"cmd/three.go: this file is left out, because grading builds without cgo",
			},
			false,
		},
		{
			"a file for another system, and one for tests", samples.Module + calls + makefile +
				"-- cmd/three_windows.go --\npackage main\n\nfunc three() {}\n" +
				"-- cmd/three_test.go --\n//go:build production\n\npackage main\n\nfunc three() {}\n" +
				"-- cmd/tool.go --\n//go:build ignore\n\npackage main\n\nfunc three() {}\n",
			"it does not compile",
			[]string{"cmd/main.go:3:15: undefined: three"},
			false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := builder(t, samples.Lay(t, test.files))
			err := b.Fetch(t.Context(), func(int, int) {})
			if (err != nil) != test.fetch {
				t.Fatalf("Fetch() error = %v", err)
			}
			for _, err := range slices.Compact([]error{b.Build(t.Context()), err}) {
				if err == nil {
					continue
				}
				problem := problemOf(t, err)
				var diagnostics []string
				for _, d := range problem.Diagnostics {
					diagnostics = append(diagnostics, strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
				}
				promises := func(diagnostic string) bool { return strings.HasSuffix(diagnostic, ":") } // advice that is missing
				if problem.Reason != test.reason ||
					!slices.EqualFunc(diagnostics, test.diagnostics, strings.HasPrefix) || slices.ContainsFunc(diagnostics, promises) {
					t.Errorf("got reason %q and diagnostics %q", problem.Reason, diagnostics)
				}
			}
		})
	}
}

// If there are several programs, --main selects the operator. The example in the error is the most likely one.
func TestSeveralPrograms(t *testing.T) {
	t.Parallel()
	two := samples.Module + "-- cmd/flavours/main.go --\n" + samples.Program +
		"-- cmd/operator/main.go --\npackage main\n\nimport _ \"k8s.io/client-go/rest\"\n\nfunc main() {}\n" +
		"-- pkg/pkg.go --\npackage pkg\n"
	for _, test := range []struct{ name, main, found, wrong string }{
		{
			"nothing is named", "", "",
			"there are several programs (./cmd/flavours, ./cmd/operator): " +
				"say which one is the operator, as in `--main ./cmd/operator`",
		},
		{"one is named", "./cmd/flavours", "./cmd/flavours", ""},
		{"one is named otherwise", "cmd/operator/", "./cmd/operator", ""},
		{
			"a library is named", "./pkg", "",
			"there is no package main in ./pkg: name the folder of the operator's main, as seen from the submission's folder",
		},
		{"nothing that is there is named", "./cmd/none", "", "there is no package main in ./cmd/none"},
		{"a folder elsewhere is named", "../cmd", "", "there is no package main in ../cmd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Open(samples.Lay(t, two), test.main)
			if test.wrong != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.wrong) {
					t.Errorf("want an error with the prefix %q, got %v", test.wrong, err)
				}
			} else if err != nil || got.Main != test.found {
				t.Errorf("Open() = %+v, error = %v", got, err)
			}
		})
	}
}

// The time limits are many times what a quiet machine needs, so a slow build says nothing about the submission.
func TestSlowBuildIsMachineError(t *testing.T) {
	t.Parallel()
	b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 1, errTooLong)
	defer cancel()
	if environmentErr, ok := errors.AsType[*EnvironmentError](b.Build(ctx)); !ok ||
		environmentErr.Reason != "building took longer than 15m0s: end other programs, and run it again" {
		t.Errorf("Build() error = %v", environmentErr)
	}
}
