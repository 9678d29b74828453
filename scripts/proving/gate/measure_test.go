// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
)

func TestTestProgramsAreMeasured(t *testing.T) {
	t.Parallel()
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, words, err := Measure(scope)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	var nothing strings.Builder
	if err := m.Print(&nothing, root, strings.NewReader("")); err != nil || nothing.Len() > 0 {
		t.Errorf("Print() of a module without tests: output %q, error %v", &nothing, err)
	}
	run := func(folder, script string) (printed string, err error) {
		t.Helper()
		dir := filepath.Join(root, folder)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), words[0], append(words[1:], "sh", "-c", script)...)
		c.Dir = dir
		output, err := c.CombinedOutput()
		return string(output), err
	}
	if printed, err := run(
		"busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo out; echo problem >&2",
	); err != nil || printed != "out\nproblem\n" {
		t.Errorf("got output %q, error %v", printed, err)
	}
	_, err = run("fails", "exit 3")
	if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 3 {
		t.Errorf("the exit code of a test is lost: %v", err)
	}
	events := `{"Action":"run","Package":"x/busy","Test":"TestA"}
{"Action":"pass","Package":"x/busy","Test":"TestA","Elapsed":0.5}
{"Action":"fail","Package":"x/fails","Test":"TestB","Elapsed":2}
{"Action":"pass","Package":"x/busy","Elapsed":3}
`
	var table strings.Builder
	if err := m.Print(&table, root, strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	got := table.String()
	busy, fails := strings.Index(got, "\n| busy | "), strings.Index(got, "\n| fails | ")
	if busy < 0 || fails < busy || strings.Contains(got, "\n| busy | 0.0 | 0.0 |") {
		t.Errorf("want the busy package first, with its CPU time:\n%s", got)
	}
	if !strings.Contains(got, "|---|---|\n| fails TestB | 2.0 |\n| busy TestA | 0.5 |\n") {
		t.Errorf("the tests are not sorted by time:\n%s", got)
	}
}

func TestPackageRunTwiceCountsTwice(t *testing.T) {
	t.Parallel()
	got, err := packageTimes("/r", "/r/a 1.0 0.5 0.25\n/r/b 2.0 0.5 0.5\nKilled\n/r/a 1.0 0.5 0.25\n")
	if err != nil || len(got) != 2 || got[0] != (measured{"a", 2, 1.5}) || got[1] != (measured{"b", 2, 1}) {
		t.Errorf("packageTimes() = %v, %v", got, err)
	}
	if _, err := packageTimes("/r", "/r/a 1.0 x 0.25\n"); err == nil {
		t.Error("packageTimes() accepted a time that is not a number")
	}
}
