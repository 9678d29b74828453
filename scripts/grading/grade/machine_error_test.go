// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
)

// A failure of the machine or the network is an error with a remedy, and no verdict on the submission.
func TestMachineFailureIsNotAVerdict(t *testing.T) {
	longtest.Proof(t)
	for _, test := range []struct {
		name, submission, reason string
		change                   func(*testing.T, *Options)
	}{
		{
			"the compiler is killed", "base",
			`^a program of Go was killed or had no memory left \(.*compile: signal: killed\): close other programs`,
			func(t *testing.T, o *Options) {
				t.Helper()
				t.Setenv("GOROOT", killedCompiler(t))
				// The compiler does not run for a file that was compiled before.
				file := filepath.Join(o.Dir, "cmd", "new.go")
				if err := os.WriteFile(file, []byte("package main\n\n// This stood in "+o.Dir+" only.\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			"the network is down", "missing-module",
			`^modules could not be downloaded, because the network or the module proxy failed \(.*connection refused\)`,
			func(t *testing.T, o *Options) {
				t.Helper()
				t.Setenv("GOPROXY", "http://127.0.0.1:1")
				o.Fetch = true
			},
		},
		{
			"Go is not installed", "base", `^Go is not installed or not on PATH: install it`,
			func(t *testing.T, _ *Options) {
				t.Helper()
				t.Setenv("PATH", t.TempDir())
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := options(t, "2", unpack(t, test.submission))
			test.change(t, &options)
			got := grade(t.Context(), t, options)
			if got.Outcome != report.Error || got.Score != 0 {
				t.Errorf("outcome is %s with %d points", got.Outcome, got.Score)
			}
			match(t, "the reason", got.Reason, test.reason)
		})
	}
}

// killedCompiler creates an installation of Go whose compiler is killed each time it has something to compile.
func killedCompiler(t *testing.T) (goroot string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	installed := strings.TrimSpace(string(out))
	goroot = t.TempDir()
	tools := filepath.Join("pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)
	compiler := filepath.Join(tools, "compile")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in -V=full) exec %s \"$@\";; esac\nkill -9 $$\n",
		filepath.Join(installed, compiler))
	if err := errors.Join(os.MkdirAll(filepath.Join(goroot, tools), 0o755),
		os.WriteFile(filepath.Join(goroot, compiler), []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	names := []string{"src", "lib", "VERSION", "go.env", "pkg/include"}
	others, err := os.ReadDir(filepath.Join(installed, tools))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range others {
		names = append(names, filepath.Join(tools, other.Name()))
	}
	for _, name := range names {
		if err := os.Symlink(filepath.Join(installed, name), filepath.Join(goroot, name)); err != nil &&
			!errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	return goroot
}
