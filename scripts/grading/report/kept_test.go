// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"errors"
	"os"
	"path/filepath"
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
