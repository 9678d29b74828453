// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/clusters/longtest"
)

func TestStateExperimentDrawsCharts(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := newCheckout(t)
	r := run(t, root, "experiment", "state", "--objects", "200", "--watchers", "5")
	if r.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, want := range []string{
		"Time of a request in ms, by objects", "Memory and disk in MiB",
		"Time until a write is seen", "| 200 |", "etcdserver: request is too large",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, r.stdout)
		}
	}
	for file, want := range map[string]string{
		"latency.svg": "<svg", "memory.svg": "<svg", "fan-out.svg": "<svg",
		"result.json": `"objects": 200`, "tables.md": "| 200 |",
	} {
		content, err := os.ReadFile(filepath.Join(root, "out", "experiment-state", file))
		if err != nil || !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
	wantNothing(t, r.runs)
}

func TestInterruptedExperimentCleansUp(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	c, runs := command(t, newCheckout(t), "experiment", "state", "--objects", "1000000")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	// After some seconds it prints its progress: its cluster runs, or is being started.
	output := bufio.NewReader(stderr)
	if line, err := output.ReadString('\n'); err != nil {
		t.Fatalf("the command ended after %q", line)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(output) // until all processes have closed it
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	wantNothing(t, runs)
}
