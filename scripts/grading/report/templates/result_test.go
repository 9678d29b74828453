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
	"regexp"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout"
)

// job is the folder of a job whose lab command grades nothing. Instead, `lab grade` runs a script in the folder of
// the submission, as hostile as a submission may be, and ends with its exit code. All other commands are the real
// ones.
type job struct{ dir, root, submission string }

func newJob(t *testing.T, grade string, modules ...string) job {
	t.Helper()
	repo, err := checkout.Find()
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
		link(t, filepath.Join(repo.Root, name), filepath.Join(j.root, name))
	}
	content, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/bash\nif [ \"$1\" != grade ]; then exec %s \"$@\"; fi\n"+
		"if [[ \"$*\" == *--solution* ]]; then exit 0; fi\necho \"grade $*\" >> %s\n%s\n",
		filepath.Join(bin, "real"), filepath.Join(dir, "graded"), grade)
	if err := errors.Join(
		os.WriteFile(filepath.Join(bin, "real"), content, 0o755),                     //nolint:gosec // a program
		os.WriteFile(filepath.Join(bin, "lab"), []byte(script), 0o755)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, module := range modules {
		folder := filepath.Join(j.submission, filepath.FromSlash(module))
		if err := errors.Join(
			os.MkdirAll(folder, 0o755),
			os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/x\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// forged is a report that a submission writes about itself, with full marks.
const forged = `{"score": 100, "tests": [{"name": "mine", "score": 100}]}`

// onGradescope runs run_autograder with the job's command, and returns the path of its result.
func (j job) onGradescope(t *testing.T) (results, output string, err error) {
	t.Helper()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(j.dir, "autograder", "results"), 0o755),
		os.MkdirAll(filepath.Join(j.dir, "home"), 0o755),
		os.Rename(j.root, filepath.Join(j.dir, "home", "operator-labs")),
		os.Rename(j.submission, filepath.Join(j.dir, "autograder", "submission")),
	); err != nil {
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

// The file of a run that failed or was killed is no result, whatever it contains.
func TestFailedRunIsNotPublished(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	for name, end := range map[string]string{"failed": "exit 2", "killed": "kill -9 $$", "panicked": "exit 3"} {
		t.Run("Gradescope, "+name, func(t *testing.T) {
			t.Parallel()
			results, output, err := newJob(t, "echo '"+forged+"' > $RESULTS; "+end, ".").onGradescope(t)
			if _, statErr := os.Lstat(results); err == nil || !errors.Is(statErr, fs.ErrNotExist) ||
				!strings.Contains(output, "The run has no result") {
				t.Errorf("the script ended with %v, and its result exists (%v):\n%s", err, statErr, output)
			}
		})
		t.Run("Classroom 50, "+name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "echo '"+forged+"' > result.json; echo mine > release-body.md; chmod 555 .; "+end, ".")
			output, err := classroom50(t, python, j.dir)
			for _, file := range []string{"result.json", "release-body.md"} {
				if _, statErr := os.Lstat(filepath.Join(j.submission, file)); err == nil || !errors.Is(statErr, fs.ErrNotExist) ||
					!strings.Contains(output, "There is no result") {
					t.Errorf("the script ended with %v, and %s exists (%v):\n%s", err, file, statErr, output)
				}
			}
		})
	}
	// The run has an exit code like that of a verdict, but no report.
	t.Run("Classroom 50, without a report", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "mkdir -p result.json/x; chmod 555 result.json; exit 1", ".")
		output, err := classroom50(t, python, j.dir)
		if _, statErr := os.Lstat(filepath.Join(j.submission, "result.json")); err == nil ||
			!errors.Is(statErr, fs.ErrNotExist) {
			t.Errorf("the script ended with %v, and its result exists (%v):\n%s", err, statErr, output)
		}
	})
}

// solutionEnds makes the job's command end with this exit code when it grades the course's own solution.
func (j job) solutionEnds(t *testing.T, code int) {
	t.Helper()
	program := filepath.Join(j.root, ".cache", "bin", "lab")
	const ends = "*--solution* ]]; then exit "
	script := read(t, program)
	if strings.Count(script, ends+"0") != 1 {
		t.Fatalf("command is %s", script)
	}
	changed := strings.Replace(script, ends+"0", fmt.Sprintf("%s%d", ends, code), 1)
	if err := os.WriteFile(program, []byte(changed), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// If the course's own solution fails on a machine, no student is graded there.
func TestFailingSolutionPreventsGrading(t *testing.T) {
	t.Parallel()
	t.Run("Classroom 50", func(t *testing.T) {
		t.Parallel()
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("there is no python3, in which Classroom 50 wants its autograders")
		}
		for _, code := range []int{0, 1, 2} {
			j := newJob(t, "exit 1", ".") // it leaves no report, so there is no result in any case
			j.solutionEnds(t, code)
			output, err := classroom50(t, python, j.dir)
			_, graded := os.Lstat(filepath.Join(j.dir, "graded"))
			_, result := os.Lstat(filepath.Join(j.submission, "result.json"))
			refused := strings.Contains(output,
				"Lab 1 is not graded: the course's own solution has not had full marks on this machine.\n")
			if err == nil || refused != (code != 0) ||
				errors.Is(graded, fs.ErrNotExist) != (code != 0) || !errors.Is(result, fs.ErrNotExist) {
				t.Errorf("solution ended with %d, script with %v; submission: %v, result: %v\n%s",
					code, err, graded, result, output)
			}
		}
	})
	t.Run("Gradescope", func(t *testing.T) {
		t.Parallel()
		for _, code := range []int{0, 1, 2} {
			j := newJob(t, "exit 1")
			j.solutionEnds(t, code)
			source := filepath.Join(j.dir, "autograder", "source")
			if err := errors.Join(
				os.MkdirAll(source, 0o755),
				os.Rename(j.root, filepath.Join(source, "operator-labs")),
			); err != nil {
				t.Fatal(err)
			}
			output, err := gradescope(t, j.dir, "setup.sh")
			refused := strings.Contains(output, "Lab 1 can't be graded in this container: "+
				"the course's own solution has not had full marks, for the reason above.\n")
			if (err == nil) != (code == 0) || refused != (code != 0) {
				t.Errorf("solution ended with %d, script with %v\n%s", code, err, output)
			}
		}
	})
}

// GitHub's runners forbid namespaces, and their limits of inotify are low. On a course's own machine, the workflows
// change nothing.
func TestWorkflowsPrepareGitHubRunners(t *testing.T) {
	t.Parallel()
	settings := []string{
		"kernel.apparmor_restrict_unprivileged_userns=0",
		"fs.inotify.max_user_instances=1024", "fs.inotify.max_user_watches=524288",
	}
	for _, file := range []string{
		gradeFile, "../../../../.github/workflows/ci.yml", "../../../../.github/workflows/prove.yml",
	} {
		parsed, text := readWorkflow(t, file)
		if !gradesOrTests.MatchString(text) {
			t.Errorf("%s grades nothing", file)
		}
		for name, job := range parsed.Jobs {
			allowed, grades := -1, -1
			for i, s := range job.Steps {
				if !slices.ContainsFunc(settings, func(setting string) bool { return !strings.Contains(s.Run, setting) }) &&
					strings.Contains(s.Run, "sudo sysctl") {
					allowed = i
				}
				if grades < 0 && gradesOrTests.MatchString(s.Run) {
					grades = i
				}
			}
			if grades >= 0 && (allowed < 0 || allowed > grades) {
				t.Errorf("%s, job %s: step %d grades, and step %d prepares the machine (-1: none), with %s",
					file, name, grades, allowed, strings.Join(settings, " "))
			}
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	for where, prepared := range map[string]bool{"github-hosted": true, "self-hosted": false} {
		// It ends without a report.
		output, _ := classroom50(t, python, newJob(t, "exit 1", ".").dir, "RUNNER_ENVIRONMENT="+where)
		if want := "sudo -n sysctl -q -e -w " +
			strings.Join(settings, " ") + "\n"; strings.Contains(output, want) != prepared {
			t.Errorf("on a runner that is %s, output with %q: want %t; got\n%s",
				where, want, prepared, output)
		}
	}
}

// gradesOrTests matches commands that run Pods.
var gradesOrTests = regexp.MustCompile(`lab grade|make (test|prove)|\.ci/run`)

// Exit codes 0 and 1 are verdicts, and the result is the file that the run wrote.
func TestVerdictIsPublished(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "1"} {
		results, output, err := newJob(t, "echo '"+forged+"' > $RESULTS; exit "+code,
			"x-main/labs/01-icecream", "x-main/labs/02-reconciler").onGradescope(t)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if got := read(t, results); got != forged+"\n" {
			t.Errorf("result is %q", got)
		}
		dir := filepath.Dir(filepath.Dir(filepath.Dir(results)))
		option := "--dir " + filepath.Join(dir, "home", "submission", "x-main", "labs", "01-icecream") + " "
		if graded := read(t, filepath.Join(dir, "graded")); !strings.Contains(graded, option) {
			t.Errorf("graded with %s", graded)
		}
	}
}

// If no module or more than one can be that of the lab, nothing is graded, and the student reads why.
func TestMissingModuleIsReported(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	for name, test := range map[string]struct {
		modules []string
		want    string
	}{
		"several": {
			[]string{"a/01-icecream", "b/01-icecream"},
			"2 Go modules in it can be that of lab 1 (a/01-icecream, b/01-icecream)",
		},
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
			if result.Score != 0 || len(result.Tests) == 0 || result.Tests[0].Status != "failed" ||
				!strings.Contains(result.Tests[0].Output, test.want) {
				t.Errorf("result is %+v, want %q", result, test.want)
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
			if result.Score != 0 || result.MaxScore != 100 || result.Tests[0].Passed ||
				!strings.Contains(result.Tests[0].Output, test.want) {
				t.Errorf("result is %+v, want %q", result, test.want)
			}
			if _, graded := os.Lstat(filepath.Join(j.dir, "graded")); graded == nil {
				t.Error("a submission was graded")
			}
		})
	}
}
