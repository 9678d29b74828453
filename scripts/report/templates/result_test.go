// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout"
)

// job is the folder of a job whose lab command grades nothing: `lab grade` runs a script in the folder of the submission instead, as
// hostile as a submission may be, and ends with its exit code. All other commands are the real ones.
type job struct{ dir, root, submission string }

func newJob(t *testing.T, grade string, modules ...string) job {
	t.Helper()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	j := job{dir, filepath.Join(dir, "operator-labs"), filepath.Join(dir, "submission")}
	bin := filepath.Join(j.root, ".cache", "bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(j.submission, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.work", "clusters", "docs", "labs", "scripts", "solutions"} {
		link(t, filepath.Join(here.Root, name), filepath.Join(j.root, name))
	}
	content, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/bash\nif [ \"$1\" != grade ]; then exec %s \"$@\"; fi\nif [[ \"$*\" == *--solution* ]]; then exit 0; fi\necho \"grade $*\" >> %s\n%s\n",
		filepath.Join(bin, "real"), filepath.Join(dir, "graded"), grade)
	if err := errors.Join(
		os.WriteFile(filepath.Join(bin, "real"), content, 0o755),                     //nolint:gosec // a program
		os.WriteFile(filepath.Join(bin, "lab"), []byte(script), 0o755)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, module := range modules {
		folder := filepath.Join(j.submission, filepath.FromSlash(module))
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/x\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// forged is a report that a submission writes of itself: it has full marks.
const forged = `{"score": 100, "tests": [{"name": "mine", "score": 100}]}`

// onGradescope runs run_autograder with the job's command, and returns where its result is.
func (j job) onGradescope(t *testing.T) (results, output string, err error) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Join(j.dir, "autograder", "results"), 0o755), os.MkdirAll(filepath.Join(j.dir, "home"), 0o755),
		os.Rename(j.root, filepath.Join(j.dir, "home", "operator-labs")), os.Rename(j.submission, filepath.Join(j.dir, "autograder", "submission"))); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(j.dir, "home", "operator-labs", ".cache", "bin")
	script := strings.ReplaceAll(read(t, filepath.Join(bin, "lab")), j.root, filepath.Dir(filepath.Dir(bin)))
	if err := os.WriteFile(filepath.Join(bin, "lab"), []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	results = filepath.Join(j.dir, "autograder", "results", "results.json")
	output, err = gradescope(t, j.dir, "run_autograder", "RESULTS="+results)
	return results, output, err
}

// What a run leaves that failed or was killed is nobody's result, whatever is in it.
func TestTheFileOfAFailedRunIsNoResult(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	for name, end := range map[string]string{"failed": "exit 2", "killed": "kill -9 $$", "panicked": "exit 3"} {
		t.Run("Gradescope, "+name, func(t *testing.T) {
			t.Parallel()
			results, output, err := newJob(t, "echo '"+forged+"' > $RESULTS; "+end, ".").onGradescope(t)
			if _, there := os.Lstat(results); err == nil || !errors.Is(there, fs.ErrNotExist) || !strings.Contains(output, "The run has no result") {
				t.Errorf("the script ended with %v, and its result is there (%v):\n%s", err, there, output)
			}
		})
		t.Run("Classroom 50, "+name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "echo '"+forged+"' > result.json; echo mine > release-body.md; chmod 555 .; "+end, ".")
			output, err := classroom50(t, python, j.dir)
			for _, file := range []string{"result.json", "release-body.md"} {
				if _, there := os.Lstat(filepath.Join(j.submission, file)); err == nil || !errors.Is(there, fs.ErrNotExist) || !strings.Contains(output, "There is no result") {
					t.Errorf("the script ended with %v, and %s is there (%v):\n%s", err, file, there, output)
				}
			}
		})
	}
	// It has an exit code like that of a verdict, and no report of a run.
	t.Run("Classroom 50, without a report", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "mkdir -p result.json/x; chmod 555 result.json; exit 1", ".")
		output, err := classroom50(t, python, j.dir)
		if _, there := os.Lstat(filepath.Join(j.submission, "result.json")); err == nil || !errors.Is(there, fs.ErrNotExist) {
			t.Errorf("the script ended with %v, and its result is there (%v):\n%s", err, there, output)
		}
	})
}

// Exit codes 0 and 1 are verdicts, and the result is what the run wrote.
func TestAVerdictIsAResult(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "1"} {
		results, output, err := newJob(t, "echo '"+forged+"' > $RESULTS; exit "+code, "x-main/labs/01-icecream", "x-main/labs/02-reconciler").onGradescope(t)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if got := read(t, results); got != forged+"\n" {
			t.Errorf("the result is %q", got)
		}
		dir := filepath.Dir(filepath.Dir(filepath.Dir(results)))
		if graded := read(t, filepath.Join(dir, "graded")); !strings.Contains(graded, "--dir "+filepath.Join(dir, "home", "submission", "x-main", "labs", "01-icecream")+" ") {
			t.Errorf("what was graded is %s", graded)
		}
	}
}

// If no module or several can be that of the lab, nothing is graded, and the student reads why.
func TestTheResultSaysWhyNoModuleWasFound(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	for name, test := range map[string]struct {
		modules []string
		want    string
	}{
		"several":     {[]string{"a/01-icecream", "b/01-icecream"}, "2 Go modules in it can be that of lab 1 (a/01-icecream, b/01-icecream)"},
		"another lab": {[]string{"labs/02-reconciler"}, "none of its Go modules is that of lab 1"},
		"none":        {nil, "there is no go.mod in it"},
	} {
		t.Run("Gradescope, "+name, func(t *testing.T) {
			t.Parallel()
			results, output, err := newJob(t, "exit 0", test.modules...).onGradescope(t)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			var result struct {
				Score int
				Tests []struct{ Status, Output string }
			}
			if err := json.Unmarshal([]byte(read(t, results)), &result); err != nil {
				t.Fatal(err)
			}
			if result.Score != 0 || len(result.Tests) == 0 || result.Tests[0].Status != "failed" || !strings.Contains(result.Tests[0].Output, test.want) {
				t.Errorf("the result is %+v, want %q", result, test.want)
			}
		})
		t.Run("Classroom 50, "+name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "exit 0", test.modules...)
			output, err := classroom50(t, python, j.dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			result := readResult(t, filepath.Join(j.submission, "result.json"))
			if result.Score != 0 || result.MaxScore != 100 || result.Tests[0].Passed || !strings.Contains(result.Tests[0].Output, test.want) {
				t.Errorf("the result is %+v, want %q", result, test.want)
			}
			if _, graded := os.Lstat(filepath.Join(j.dir, "graded")); graded == nil {
				t.Error("something was graded")
			}
		})
	}
}
