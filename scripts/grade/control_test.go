// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/submission"
)

// What checks ask of the grader while they run: played checks ask for all of it.
func TestWhatChecksMayAskFor(t *testing.T) {
	t.Parallel()
	options := played(t, "01-socket", lay(t, "labels", "scripts"))
	if err := os.Symlink("/etc/passwd", filepath.Join(options.Dir, "outside")); err != nil {
		t.Fatal(err)
	}
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Graded || got.Score != got.MaxScore {
		t.Errorf("the outcome is %s: %s\n%s", got.Outcome, got.Reason, strings.Join(got.OperatorLog, "\n"))
	}
	for _, check := range got.Checks {
		if check.Status != report.Passed {
			t.Errorf("%s: expected %s\nobserved %s", check.ID, check.Expected, check.Observed)
		}
	}
}

func TestFilesOfASubmission(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "submission")
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(above, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "s3cret")
	write("submission/config/policy.yaml", "kind: Policy")
	write("submission/empty", "")
	write("submission/full", strings.Repeat("x", fileLimit))
	write("submission/overfull", strings.Repeat("x", fileLimit+1))
	link("config", "inside")
	link(filepath.Join("..", "secret"), "out")
	link(above, "outDir")
	link(filepath.Join(above, "secret"), "absolute")
	link("loop", "loop")
	r := &run{workshop: &submission.Workshop{Submission: &submission.Submission{Dir: dir}}}
	for _, test := range []struct {
		path string
		want string // if it can be read
		// missing: it does not exist; refused: the error says so.
		missing bool
		refused string
	}{
		{path: "config/policy.yaml", want: "kind: Policy"},
		{path: "config/../config/policy.yaml", want: "kind: Policy"},
		{path: "inside/policy.yaml", want: "kind: Policy"},
		{path: "empty"},
		{path: "full", want: strings.Repeat("x", fileLimit)},
		{path: "overfull", refused: "overfull is larger than 1 MB"},
		{path: "config", refused: "is a directory"},
		{path: "policy.yaml", missing: true},
		{path: "nowhere/policy.yaml", missing: true},
		{path: "../secret", refused: "path escapes from parent"},
		{path: "config/../../secret", refused: "path escapes from parent"},
		{path: filepath.Join(above, "secret"), refused: "path escapes from parent"},
		{path: "out", refused: "path escapes from parent"},
		{path: "outDir/secret", refused: "path escapes from parent"},
		{path: "absolute", refused: "path escapes from parent"},
		{path: "loop", refused: "too many levels of symbolic links"},
	} {
		content, err := r.file(test.path)
		switch {
		case test.missing != errors.Is(err, fs.ErrNotExist):
			t.Errorf("%s: that it is missing must be %t: %v", test.path, test.missing, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: the error must say %q and is %v", test.path, test.refused, err)
		case (err == nil) != (!test.missing && test.refused == ""), !bytes.Equal(content, []byte(test.want)):
			t.Errorf("%s: it is %.40q, %v", test.path, content, err)
		}
	}
}
