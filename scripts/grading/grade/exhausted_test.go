// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func TestResultOnFullDisk(t *testing.T) {
	t.Parallel()
	survived, broken := &torture{}, &torture{Trials: Trials{Failure: &Failure{}}}
	for _, test := range []struct {
		name     string
		err      error
		check    report.Status
		torture  *torture
		replaced bool
	}{
		{"success", nil, report.Passed, nil, false},
		{"a check failed", nil, report.Failed, nil, true},
		{"it does not compile", &verdict{outcome: report.NotBuilt}, report.Skipped, nil, false},
		{"no manifests", &verdict{outcome: report.NotGenerated}, report.Skipped, nil, false},
		{"it crashed", &verdict{outcome: report.Crashed, reason: "it ended"}, report.Skipped, nil, true},
		{"the machine was too busy", overloaded("it waited"), report.Skipped, nil, false},
		{"the grader failed", errors.New("no space left"), report.Skipped, nil, true},
		{"a torture that it survived", nil, report.Skipped, survived, false},
		{"a torture with a failure", nil, report.Skipped, broken, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &run{
				Options: Options{torture: test.torture},
				report:  &report.Report{Checks: []report.Check{{Status: report.Passed}, {Status: test.check}}},
			}
			got := r.onFullDisk(test.err)
			if !test.replaced {
				if !errors.Is(got, test.err) {
					t.Errorf("onFullDisk(%v) = %v", test.err, got)
				}
				return
			}
			v, is := errors.AsType[*verdict](got)
			if !is || v.outcome != report.Error || !v.machine || !strings.HasPrefix(v.reason, fullDisk) {
				t.Fatalf("onFullDisk(%v) = %+v", test.err, got)
			}
			if test.err != nil && !strings.Contains(v.reason, test.err.Error()) {
				t.Errorf("the reason %q does not name %q", v.reason, test.err)
			}
		})
	}
}

func TestFoldersHoldMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folders := []string{filepath.Join(dir, "missing"), dir}
	below := filepath.Join(dir, "below")
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content) // a file system may compress zeros
	if err := errors.Join(
		os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(below, "full"), content, 0o600),
		os.WriteFile(filepath.Join(below, "sparse"), nil, 0o600), os.Truncate(filepath.Join(below, "sparse"), 1<<30),
	); err != nil {
		t.Fatal(err)
	}
	if !holdMore(512<<10, folders) {
		t.Error("a file of 1 MB holds less than 512 kB")
	}
	if holdMore(2<<20, folders) {
		t.Error("a file of 1 MB, and one that is sparse, hold more than 2 MB")
	}
	if os.Getuid() == 0 {
		return // root can read each folder
	}
	defer func() { _ = os.Chmod(below, 0o700) }()
	if err := os.Chmod(below, 0); err != nil {
		t.Fatal(err)
	}
	if !holdMore(2<<20, folders) {
		t.Error("a folder that can't be read holds less than 2 MB")
	}
}
