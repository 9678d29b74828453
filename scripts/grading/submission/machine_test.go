// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/grading/submission/samples"
)

// The compiler, the go command and controller-gen print a string literal as it is, with its line breaks, and kustomize
// prints the names in its files. So a submission can make them report a fault that the machine does not have.
func TestReportedFaultWithoutFaultIsProblem(t *testing.T) {
	t.Parallel()
	const (
		words   = "`\nwrite /x: no space left on device\ngo: a@v1.0.0: Get \"http://a\": dial tcp: no such host\n`"
		program = "-- cmd/main.go --\npackage main\n\nfunc main() { var x int = " + words + " }\n"
		broken  = "-- cmd/main.go --\n" + samples.Program + "-- api/api.go --\n" + words + "\n"
		tests   = "-- api/api.go --\npackage api\n-- api/api_test.go --\npackage api\n\nvar x int = " + words + "\n"
	)
	if _, is := gobuild.MachineFault(words); !is {
		t.Fatal("the words are not those of a fault")
	}
	kubectl := script(t, "kubectl", "echo no space left on device >&2; exit 1")
	for _, test := range []struct {
		name, files, want string
		do                func(*Builder) error
	}{
		{"the compiler", program, "it does not compile", func(b *Builder) error { return b.Build(t.Context()) }},
		{"the compiler of tests", tests, "the tests do not compile", func(b *Builder) error {
			return b.CompileTests(t.Context(), "api", filepath.Join(b.toolFolder(), "tests"), false)
		}},
		{"the go command", broken, "its modules can't be downloaded", func(b *Builder) error {
			return b.Fetch(t.Context(), func(int, int) {})
		}},
		{"controller-gen", broken, "no manifests can be generated from its markers", func(b *Builder) error {
			_, err := b.Generate(t.Context())
			return err
		}},
		{"kustomize", defaults, "kustomize can't build config/default", func(b *Builder) error {
			_, err := b.Kustomize(t.Context(), kubectl)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			files := test.files
			if !strings.Contains(files, "cmd/main.go") {
				files += "-- cmd/main.go --\n" + samples.Program
			}
			problem := problemOf(t, test.do(builder(t, samples.Lay(t, samples.Module+files))))
			if _, is := gobuild.MachineFault(problem.Error()); !strings.HasPrefix(problem.Reason, test.want) || !is {
				t.Errorf("got problem %v, want one with the words of a fault", problem)
			}
		})
	}
}

func TestFaultOfMachineIsFound(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	files := samples.Module + "-- cmd/main.go --\n" + samples.Program
	const full = "echo 'write /x: no space left on device' >&2; exit 1"
	for _, test := range []struct{ name, build, want string }{
		{"the disk is full", full, "the disk is full (write /x: no space left on device): free some space"},
		{"the disk was full", "if mkdir " + filepath.Join(t.TempDir(), "once") + "; then " + full + "; fi", ""},
		{"the go command is killed", "kill -9 $$", "a program of Go was killed or had no memory left (signal: killed)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := builder(t, samples.Lay(t, files))
			wrapper := script(t, "go", fmt.Sprintf("if [ $1 = build ]; then %s; fi\nexec %s \"$@\"", test.build, goCommand))
			t.Setenv("PATH", filepath.Dir(wrapper)+":"+os.Getenv("PATH"))
			wantFault(t, b.Build(t.Context()), test.want)
		})
	}
	kubectl := script(t, "kubectl", "kill -9 $$")
	_, err = builder(t, samples.Lay(t, files+defaults)).Kustomize(t.Context(), kubectl)
	wantFault(t, err, "a program of Go was killed or had no memory left (signal: killed)")
}

// wantFault wants an error of the machine whose reason begins with this text, or no error for an empty text.
func wantFault(t *testing.T, err error, want string) {
	t.Helper()
	fault, is := errors.AsType[*EnvironmentError](err)
	if want == "" && err != nil || want != "" && (!is || !strings.HasPrefix(fault.Reason, want)) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

// script writes a program in a folder of its own.
func script(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+content+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wantFault(t, environmentError(checkDisk(dir, 1)), "")
	wantFault(t, environmentError(checkDisk(dir, math.MaxUint64)), "the disk is full (checking the disk of "+dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the check leaves %v, error %v", left, err)
	}
}
