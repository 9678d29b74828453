// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/report"
)

// lineOf is what `lab labs` says of a lab.
func lineOf(t *testing.T, root, lab string) string {
	t.Helper()
	got := run(t, root, "labs")
	for line := range strings.Lines(got.stdout) {
		if strings.HasPrefix(line, lab) {
			return line
		}
	}
	t.Fatalf("exit code %d, no line of %s:\n%s%s", got.code, lab, got.stdout, got.stderr)
	return ""
}

func TestTheBestScoreStays(t *testing.T) {
	t.Parallel()
	root := complete(t)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.CopyFS(wrong, os.DirFS(filepath.Join(root, "solutions", "01-icecream"))); err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(wrong, "api", "v1", "icecream_types.go")
	content, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.Replace(string(content), `// +kubebuilder:printcolumn:name="Age"`, `// no column`, 1))
	// reports is the folder of the submission's reports: its name has a digest.
	reports := func() string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(root, "out", "submissions", "wrong*", "01-icecream"))
		if err != nil || len(found) != 1 {
			t.Fatalf("the folders of reports are %v, error %v", found, err)
		}
		return found[0]
	}
	best := func() int {
		t.Helper()
		kept, err := report.Read(filepath.Join(reports(), "best", report.JSONFile))
		if err != nil {
			t.Fatal(err)
		}
		return kept.Score
	}
	run(t, root, "grade", "1", "--dir", wrong)
	if best() != 100 {
		t.Errorf("after full marks the best is %d", best())
	}
	if err := os.WriteFile(types, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, root, "grade", "1", "--dir", wrong); !strings.Contains(got.stdout, "90 of 100") || best() != 100 {
		t.Errorf("after a worse run the best is %d:\n%s%s", best(), got.stdout, got.stderr)
	}

	// The same reports as those of the lab: the table shows the last score, and the best where it is another.
	if err := os.CopyFS(filepath.Join(root, "out", "01-icecream"), os.DirFS(reports())); err != nil {
		t.Fatal(err)
	}
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " 90 of 100, best 100 ") || !strings.Contains(line, "make lab-1") {
		t.Errorf("the table says %q", line)
	}
	if err := os.RemoveAll(filepath.Join(root, "out", "01-icecream", "verdict")); err != nil {
		t.Fatal(err)
	}
	if line := lineOf(t, root, "01-icecream"); !strings.Contains(line, " –, best 100 ") || !strings.Contains(line, "never") {
		t.Errorf("after a reset the table says %q", line)
	}
}
