// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
)

// The commands that `make reset-1` prints restore the work, and files that were written in between are not lost.
func TestWorkCanBeRestoredAfterReset(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t, "01-icecream")
	// The labs of a checkout are a user's work, so the test uses a copy.
	labs := filepath.Join(root, "labs")
	if err := os.Remove(labs); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(labs, os.DirFS(filepath.Join(findCheckout(t).Root, "labs"))); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(labs, "01-icecream", "api", "v1", "notes.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(notes, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	last(t, root, "columns", nil)
	best := filepath.Join(root, "out", "01-icecream", "best", "report.json")
	if err := os.CopyFS(filepath.Dir(best), os.DirFS(filepath.Join(root, "out", "01-icecream", "verdict"))); err != nil {
		t.Fatal(err)
	}

	write("first")
	first := run(t, root, "reset", "1")
	advice, found := strings.CutPrefix(first.stdout, "labs/01-icecream is the skeleton again. Your work is in ")
	_, commands, _ := strings.Cut(advice, "To restore it, at the root of the repository:\n")
	if first.code != 0 || !found || strings.Count(commands, "\n") != 2 {
		t.Fatalf("exit code %d, output\n%s%s", first.code, first.stdout, first.stderr)
	}
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " –, best 90 ") {
		t.Errorf("table row after the reset = %q", line)
	}

	write("second")
	shell := exec.CommandContext(t.Context(), "sh", "-ec", strings.Replace(commands, "make reset-1", lab+" reset 1", 1))
	shell.Dir, shell.Env = root, append(os.Environ(), isLab+"=true")
	output, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, output)
	}
	if content, err := os.ReadFile(notes); err != nil || string(content) != "first" {
		t.Errorf("restored notes = %q, error %v; the commands were\n%s", content, err, commands)
	}
	kept, err := filepath.Glob(filepath.Join(root, "out", "kept", "01-icecream-*", "api", "v1", "notes.txt"))
	if err != nil || len(kept) != 2 {
		t.Errorf("want both works to be kept, got %v, error %v", kept, err)
	}
}
