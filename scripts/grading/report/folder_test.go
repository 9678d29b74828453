// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func TestWritableLeavesNoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killed := exec.CommandContext(t.Context(), "true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, fmt.Sprintf(".writable-%d-1", killed.Process.Pid))
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.Writable(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, error %v", left, err)
	}
}
