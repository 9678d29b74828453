// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step returns a step that runs a script.
func step(name, script string) Step { return Step{Name: name, Args: []string{"-c", script}} }

func try(t *testing.T, root string, options Options) (string, error) {
	t.Helper()
	var out strings.Builder
	options.Root, options.Program, options.Out = root, "/bin/sh", &out
	_, err := Run(t.Context(), options)
	return out.String(), err
}

func TestPassingGate(t *testing.T) {
	t.Parallel()
	out, err := try(t, t.TempDir(), Options{
		Steps: []Step{step("first", "echo one"), step("second", "pwd")},
		Notes: func(context.Context) ([]string, error) { return []string{"The proof is old."}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The machine: ", " cores, ", "=== first\none\n", "| second ", "The proof is old.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// Readers look at the end of a log. It has the failed step with its last 40 lines, and no later step ran.
func TestFailedGateEndsWithReason(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	out, err := try(t, root, Options{Steps: []Step{
		step("good", "true"), step("bad", "seq 100; echo broken >&2; exit 3"), step("later", "touch later"),
	}})
	if err == nil || !strings.Contains(err.Error(), `the step "bad" failed: exit status 3`) {
		t.Errorf("Run() error = %v", err)
	}
	_, end, found := strings.Cut(out, `The gate failed at the step "bad"`)
	if !found || !strings.HasSuffix(end, "\n99\n100\nbroken\n\n") || strings.Count(end, "\n") != tailLines+3 {
		t.Errorf("got last lines %q", end)
	}
	if _, err := os.Stat(filepath.Join(root, "later")); err == nil {
		t.Error("a step ran after the failure")
	}
}

func TestLateGateSkipsOptionalSteps(t *testing.T) {
	t.Parallel()
	graders := step("graders", "echo solutions and mutants")
	graders.Late, graders.LeavesOut = []string{"-c", "echo only solutions"}, "drawn mutants"
	for took, want := range map[time.Duration]string{
		late - time.Minute: "=== graders\nsolutions and mutants\n", late + time.Second: "=== graders\nonly solutions\n",
	} {
		out, err := try(t, t.TempDir(), Options{Began: time.Now().Add(-took), Steps: []Step{step("whole", "true"), graders}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, want) ||
			strings.Contains(out, "SKIPPED: drawn mutants, because the gate had run for more than 40m0s.\n") != (took > late) {
			t.Errorf("after %s: got output\n%s", took, out)
		}
	}
}

func TestFlakyTests(t *testing.T) {
	t.Parallel()
	for n, want := range []string{"", "", "", "", "4 tests and grades are flaky, and the gate tolerates 3"} {
		root := t.TempDir()
		// Flaky tests of an earlier gate do not count.
		if err := AddFlaky(root, make([]Flaky, 9)...); err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name": "TestNumber%d", "output": "it was late"}`, i))
		}
		out, err := try(t, root, Options{Steps: []Step{
			step("tests", "mkdir -p out && echo '["+strings.Join(all, ",")+"]' >out/flaky.json"),
		}})
		if got := fmt.Sprint(err); want != "" && got != want || want == "" && err != nil {
			t.Errorf("with %d flaky tests: error = %v, want %q", n, err, want)
		}
		if strings.Count(out, "FLAKY: TestNumber") != n {
			t.Errorf("with %d flaky tests: got output\n%s", n, out)
		}
	}
}
