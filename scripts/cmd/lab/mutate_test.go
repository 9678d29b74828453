// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/authoring/mutate"
)

// Every entry of survivors.yaml names an existing mutant, or this fails.
func TestMutateList(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	got := run(t, root, "mutate", "--list")
	lines := regexp.MustCompile(`(?m)^[0-9a-f]{8} line \d+: \S+ .*→ .+$`).FindAllString(got.stdout, -1)
	if got.code != 0 || len(lines) < 300 || len(lines) != strings.Count(got.stdout, "\n") {
		t.Errorf("exit code %d, %d mutants:\n%s%s", got.code, len(lines), got.stdout, got.stderr)
	}
	got = run(t, root, "mutate", "1", "--only", lines[0][:8]+",cafe0000")
	const want = "lab: there is no mutant cafe0000: `lab mutate N --list` lists all mutants\n"
	if got.code != 1 || !strings.HasSuffix(got.stderr, want) || got.stdout != "" {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got = run(t, root, "mutate", "1", "--again"); got.code != 0 ||
		got.stdout != "the last run left no mutants to grade\n" {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// An interrupted run keeps the results so far, and leaves nothing behind but its ledger.
func TestMutateResumesAfterInterrupt(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	ledger := filepath.Join(root, "out", "mutation", "01-icecream.json")
	read := func() (trials []mutate.Trial) {
		if content, err := os.ReadFile(ledger); err == nil {
			if err := json.Unmarshal(content, &trials); err != nil {
				t.Error(err)
			}
		}
		return trials
	}
	var output strings.Builder
	c, runs := command(t, root, "mutate", "1", "--sample", "3", "--seed", "1", "--parallel", "1")
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() int { return mutate.Count(read()).Undecided }
	deadline, tick := time.After(2*time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for started := false; !started || left() != 2; started = started || left() == 3 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the first of three mutants was not graded: %+v", read())
		}
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	const want = "lab: interrupted: `lab mutate 1 --again` continues\n"
	if c.ProcessState.ExitCode() != 1 || !strings.HasSuffix(output.String(), want) ||
		!strings.Contains(output.String(), "a sample of 3, with seed 1\n") {
		t.Errorf("exit code %d:\n%s", c.ProcessState.ExitCode(), output.String())
	}
	wantNothing(t, runs)
	if figures := mutate.Count(read()); figures.Undecided != 2 {
		t.Errorf("after the first of three mutants: %+v, want two left", figures)
	}
}
