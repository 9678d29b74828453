// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// A test program that hangs is killed together with its child processes.
func TestHangingTestIsEnded(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- a/a.go --\npackage a\n-- a/a_test.go --\n"+`package a

import (
	"os/exec"
	"testing"
)

func TestHangs(t *testing.T) {
	if err := exec.Command("sleep", "4711").Start(); err != nil {
		t.Fatal(err)
	}
	select {}
}
`)
	opened, err := submission.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer scope.Close()
	file := filepath.Join(scope.Dir, "a.test")
	if err := (&submission.Builder{Submission: opened, Scope: scope}).
		CompileTests(t.Context(), "a", file, false); err != nil {
		t.Fatal(err)
	}
	got, err := run(t.Context(), scope, "", program{path: file, dir: dir, limit: 2 * time.Second}, nil)
	if err != nil || got.Passed || !strings.Contains(got.by, "it ran longer than 2s") || got.Seconds > 30 {
		t.Errorf("got %+v, error %v", got, err)
	}
	if pids := sleeping(t); len(pids) > 0 {
		t.Errorf("processes of the test still run: %s", pids)
	}
}

// sleeping returns the processes that TestHangs starts.
func sleeping(t *testing.T) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		content, err := os.ReadFile(line)
		if err == nil && string(content) == "sleep\x004711\x00" {
			pids = append(pids, line)
		}
	}
	return pids
}
