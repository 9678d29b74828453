// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

// A submission may have left a link in place of the file.
func TestWriteKeptReplacesLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const file, what = "kept.json", "the values"
	target := filepath.Join(dir, report.JSONFile)
	if err := errors.Join(
		os.WriteFile(target, []byte("{}"), 0o600), os.Symlink(report.JSONFile, filepath.Join(dir, file)),
		report.WriteKept(dir, file, what, map[string]int{"served": 2}),
	); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "{}" {
		t.Errorf("the link's target contains %s, error %v", content, err)
	}
	if kept, err := report.ReadKept[int](dir, file, what); err != nil || kept["served"] != 2 {
		t.Errorf("ReadKept() = %v, error %v", kept, err)
	}
}

// A submission may have replaced the file.
func TestReadKept(t *testing.T) {
	t.Parallel()
	const file, what = "kept.json", "the values"
	for _, test := range []struct {
		name, content string
		missing       bool
		want          int
		refused       bool
	}{
		{name: "a value", content: `{"served": 2}`, want: 2},
		{name: "a missing file", missing: true},
		{name: "null", content: "null"},
		{name: "no JSON", content: "{", refused: true},
		{name: "a file that is too large", content: strings.Repeat(" ", 1<<20) + "{}", refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if !test.missing {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := report.ReadKept[int](dir, file, what)
			if test.refused {
				if err == nil || !strings.Contains(err.Error(), "remove the file to start over") {
					t.Errorf("ReadKept() = %v, error %v", kept, err)
				}
				return
			}
			if err != nil || kept["served"] != test.want {
				t.Fatalf("ReadKept() = %v, error %v", kept, err)
			}
			kept["served"]++ // as the callers do
		})
	}
}
