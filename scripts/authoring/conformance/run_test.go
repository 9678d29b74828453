// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Kubernetes' tests leave folders in the directory for temporary files.
func TestRunLeavesNoTemporaryFiles(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	suite := filepath.Join(t.TempDir(), "suite")
	const script = `#!/bin/sh
mkdir "$TMPDIR/test-kuberc1" && echo x > "$TMPDIR/test-kuberc1/kuberc"
for argument; do case $argument in --ginkgo.json-report=*) cat > "${argument#*=}" <<END
[{"SpecReports": [{"ContainerHierarchyTexts": ["[sig-apps] Job"],
  "LeafNodeText": "should run a job (twice) [Conformance]", "State": "passed"}]}]
END
esac; done
`
	if err := os.WriteFile(suite, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var ended []Result
	run := Run{
		Suite: Suite{Program: suite}, Tests: []Test{{job}},
		Ended: func(r Result) error { ended = append(ended, r); return nil },
	}
	if err := run.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ended, []Result{{Test: job, Verdict: Passed}}) {
		t.Errorf("got results %v", ended)
	}
	if err := filepath.WalkDir(tmp, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, "kuberc") {
			t.Errorf("a temporary file is left: %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
