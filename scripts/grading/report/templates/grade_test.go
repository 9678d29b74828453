// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
)

// lab is the path of the lab command, built once for all of these tests.
var lab string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "lab-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		lab = filepath.Join(dir, "lab")
		build := exec.Command("go",
			append(append([]string{"build", "-C", "../../..", "-o", lab}, gobuild.Flags...), "./cmd/lab")...)
		build.Env = gobuild.Environment()
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the lab command: %v\n%s", err, output)
			return 1
		}
		return m.Run()
	}())
}

// workspace creates the folder of a job: a checkout of Operator Labs as a course has it, with everything that was
// built for this checkout, and a submission in its own repository.
func workspace(t *testing.T, submission func(dir string)) string {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	first, err := repo.Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Checks(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "job-") //nolint:usetesting // the names of sockets below it must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	root := filepath.Join(dir, "operator-labs")
	if err := os.MkdirAll(filepath.Join(root, ".cache", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Makefile", "go.work", "clusters", "docs", "labs", "scripts", "solutions", ".cache/checks", ".cache/controlplane",
	} {
		link(t, filepath.Join(repo.Root, name), filepath.Join(root, name))
	}
	tools, err := filepath.Glob(filepath.Join(repo.Root, ".cache", "bin", "controller-gen*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		link(t, tool, filepath.Join(root, ".cache", "bin", filepath.Base(tool)))
	}
	// The command finds its checkout by its own path, so it must be a copy and not a link.
	content, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".cache", "bin", "lab"), content, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	// A cache hit restores these files.
	for _, number := range []string{"1", "2"} {
		if err := os.WriteFile(filepath.Join(root, ".cache", "full-marks-"+number), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	student := filepath.Join(dir, "submission")
	if err := os.Mkdir(student, 0o755); err != nil {
		t.Fatal(err)
	}
	submission(student)
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{
			"-c", "user.name=alice", "-c", "user.email=alice@example.com",
			"commit", "--quiet", "--allow-empty", "-m", "my work",
		},
	} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = student
		command.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-06-01T16:32:05+02:00")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	return dir
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// solution copies the solution of lab 1 into a folder of the submission.
func solution(t *testing.T, folder string) func(string) {
	t.Helper()
	return func(dir string) {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS("../../../../solutions/01-icecream")); err != nil {
			t.Fatal(err)
		}
	}
}

func newRunner(t *testing.T, dir string) *runner {
	t.Helper()
	sha := "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
	// The stand-in for sudo leaves the machine unchanged.
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(
		os.MkdirAll(bin, 0o755),
		os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\necho \"sudo $*\"\n"), 0o755), //nolint:gosec // a program
	); err != nil {
		t.Fatal(err)
	}
	// The environment contains nothing of the job that runs the tests, which may be a workflow of GitHub, too.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GITHUB_") ||
			slices.Contains([]string{"MAKELEVEL", "MAKEFLAGS", "USERNAME", "OWNER"}, name)
	})
	return &runner{
		t: t, workspace: dir, env: append(env,
			"GITHUB_ACTIONS=true", "GITHUB_SHA="+sha, "GITHUB_SERVER_URL=https://git.example",
			"GITHUB_REPOSITORY=course/operators-lab-1-alice", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=main",
			"GITHUB_ACTOR=alice", "GITHUB_ACTOR_ID=4711", "TMPDIR="+dir, "RUNNER_TEMP="+dir,
			"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")),
		values: map[string]string{
			"vars.CLASSROOM": "operators", "vars.ASSIGNMENT": "lab-1", "steps.cache.outputs.cache-hit": "true",
		},
	}
}

func readResult(t *testing.T, file string) (result struct {
	Owner, Submission, Datetime string
	Score                       int
	MaxScore                    int `json:"max-score"`
	Tests                       []struct {
		Name   string `json:"test-name"`
		Passed bool
		Output string
	}
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, file)), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestWorkflowGradesFullSubmission(t *testing.T) {
	longtest.Proof(t)
	dir := workspace(t, solution(t, "01-icecream"))
	parsed, _ := gradeWorkflow(t)
	r := newRunner(t, dir)
	r.values["steps.cache.outputs.cache-hit"] = "" // as on the first run: the course's solution is graded first
	parsed.Env["LABS"] = "1 01-icecream\n"
	r.run(parsed)
	if r.failed || r.values["steps.grade.outputs.full"] != "1" {
		t.Fatalf("the workflow failed:\n%s", &r.log)
	}
	if !strings.HasPrefix(r.summary, "## Lab 1, ") || !strings.Contains(r.summary, ": 100 of 100 points") {
		t.Errorf("summary is %q", r.summary)
	}
	for _, want := range []string{
		"1 of 1 labs have full marks",
		"sudo sysctl -q -e -w kernel.apparmor_restrict_unprivileged_userns=0",
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, &r.log)
		}
	}
	result := readResult(t, filepath.Join(dir, "classroom50", "01-icecream", "result.json"))
	if result.Score != 100 || result.MaxScore != 100 ||
		result.Owner != "alice" || result.Datetime != "2026-06-01T14:32:05Z" ||
		result.Submission != "submit/2026-06-01T14-32-05Z-a1b2c3d" {
		t.Errorf("result for Classroom 50 is %+v", result)
	}
	// The artifact contains these files.
	reports := checkout.ReportsOf(filepath.Join(dir, "submission", "01-icecream"))
	for _, name := range []string{"report.json", "report.html", "junit.xml"} {
		if _, err := os.Stat(
			filepath.Join(dir, "operator-labs", "out", "submissions", reports, "01-icecream", name),
		); err != nil {
			t.Error(err)
		}
	}
}

func TestWorkflowFailsIfSubmissionDoesNotBuild(t *testing.T) {
	longtest.Proof(t)
	dir := workspace(t, func(dir string) {
		solution(t, "01-icecream")(dir)
		file := filepath.Join(dir, "01-icecream", "cmd", "broken.go")
		if err := os.WriteFile(file, []byte("package main\n\nvar x int = `</script>`\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	parsed, _ := gradeWorkflow(t)
	r := newRunner(t, dir)
	r.run(parsed) // with the labs that the template names: the student has only one of them
	if !r.failed || r.values["steps.grade.outputs.there"] != "1" || r.values["steps.grade.outputs.full"] != "0" {
		t.Errorf("there %s, full %s, failed %v:\n%s",
			r.values["steps.grade.outputs.there"], r.values["steps.grade.outputs.full"], r.failed, &r.log)
	}
	if !strings.Contains(r.summary, "**It does not build.**") || !strings.Contains(r.summary, "cmd/broken.go:3:13") {
		t.Errorf("summary lacks the reason:\n%s", r.summary)
	}
	result := readResult(t, filepath.Join(dir, "classroom50", "01-icecream", "result.json"))
	if result.Score != 0 || result.MaxScore != 100 ||
		result.Tests[0].Passed || !strings.Contains(result.Tests[0].Output, "cmd/broken.go:3:13") {
		t.Errorf("result for Classroom 50 is %+v", result)
	}
}

// A lab whose solution fails on this machine is not graded. The other labs are, and their programs are cached.
func TestWorkflowSkipsLabsWhoseSolutionFails(t *testing.T) {
	longtest.Proof(t)
	dir := workspace(t, func(dir string) {
		solution(t, "01-icecream")(dir)
		solution(t, "02-reconciler")(dir)
	})
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in 'grade 2 --solution') exit 1;; esac\nexec %s \"$@\"\n",
		filepath.Join(dir, "operator-labs", ".cache", "bin", "real"))
	program := filepath.Join(dir, "operator-labs", ".cache", "bin", "lab")
	if err := errors.Join(
		os.Rename(program, filepath.Join(filepath.Dir(program), "real")),
		os.WriteFile(program, []byte(script), 0o755), //nolint:gosec // a program
	); err != nil {
		t.Fatal(err)
	}
	parsed, _ := gradeWorkflow(t)
	steps := parsed.Jobs["grade"].Steps
	steps[slices.IndexFunc(steps, func(s step) bool { return s.Name == "Build what grades" })].Run = ""
	r := newRunner(t, dir)
	r.values["steps.cache.outputs.cache-hit"] = ""
	r.run(parsed)
	if !r.failed || r.values["steps.grade.outputs.there"] != "2" || r.values["steps.grade.outputs.full"] != "1" {
		t.Errorf("there %s, full %s, failed %v:\n%s",
			r.values["steps.grade.outputs.there"], r.values["steps.grade.outputs.full"], r.failed, &r.log)
	}
	if !strings.Contains(r.log.String(), "::error::Lab 2 is not graded: ") ||
		strings.Contains(r.summary, "## Lab 2") || !strings.Contains(r.summary, "## Lab 1") {
		t.Errorf("log or summary is wrong:\n%s\n%s", &r.log, r.summary)
	}
}

// A repository without any lab must not look as if all of its labs had passed.
func TestWorkflowFailsWithoutLabs(t *testing.T) {
	longtest.Proof(t)
	dir := workspace(t, func(string) {})
	parsed, _ := gradeWorkflow(t)
	r := newRunner(t, dir)
	r.run(parsed)
	if !r.failed || !strings.Contains(r.log.String(), "::error::Nothing was graded") {
		t.Errorf("the workflow did not fail, or gave no reason:\n%s", &r.log)
	}
}

// The autograder runs in the student's checkout and leaves its result there.
func TestClassroom50Autograder(t *testing.T) {
	longtest.Proof(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, in which Classroom 50 wants its autograders")
	}
	// A student's repository contains several labs.
	dir := workspace(t, func(dir string) {
		for _, folder := range []string{"labs/01-icecream", "labs/02-reconciler"} {
			solution(t, folder)(dir)
		}
	})
	output, err := classroom50(t, python, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	submission := filepath.Join(dir, "submission")
	result := readResult(t, filepath.Join(submission, "result.json"))
	if result.Score != 100 || result.Owner != "alice" || result.Submission != "submit/2026-06-01T14-32-05Z-a1b2c3d" {
		t.Errorf("result is %+v", result)
	}
	if body := read(t, filepath.Join(submission, "release-body.md")); !strings.Contains(body, "100 of 100 points") {
		t.Errorf("text of the release is %q", body)
	}
}

// classroom50 runs the autograder of Classroom 50 in the folder of the submission.
func classroom50(t *testing.T, python, dir string, env ...string) (output string, err error) {
	t.Helper()
	script := strings.Replace(read(t, "../../../../docs/templates/classroom50/autograder.py"), `LAB = "2"`, `LAB = "1"`, 1)
	file := filepath.Join(dir, "autograder.py")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, file)
	command.Dir = filepath.Join(dir, "submission")
	command.Env = append(append(newRunner(t, dir).env, "OPERATOR_LABS="+filepath.Join(dir, "operator-labs"),
		"CLASSROOM=operators", "ASSIGNMENT=lab-1", "ASSIGNMENT_TYPE=individual", "OWNER=alice", "USERNAME=alice",
		"SUBMISSION_TAG=submit/2026-06-01T14-32-05Z-a1b2c3d", "COMMIT_URL=https://git.example/c",
		"RELEASE_URL=https://git.example/r", "REVIEW_URL=https://git.example/d"), env...)
	combined, err := command.CombinedOutput()
	return string(combined), err
}

// gradescope runs one of Gradescope's two scripts in a folder of the test, with stand-ins for commands that only root
// may run.
func gradescope(t *testing.T, dir, script string, env ...string) (output string, err error) {
	t.Helper()
	for _, folder := range []string{"stand-ins", "autograder/source", "autograder/results", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, does := range map[string]string{
		"apt-get": ":", "tar": ":", "useradd": ":", "chown": ":", "runuser": `shift 3; exec "$@"`,
	} {
		text := "#!/bin/sh\n" + does + "\n"
		if err := os.WriteFile(filepath.Join(dir, "stand-ins", name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	config := strings.Replace(read(t, "../../../../docs/templates/gradescope/lab.conf"), "LAB=2", "LAB=1", 1)
	if err := os.WriteFile(filepath.Join(dir, "autograder", "source", "lab.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(filepath.Join("../../../../docs/templates/gradescope", script))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), file)
	command.Dir = dir
	command.Env = append(newRunner(t, dir).env,
		"AUTOGRADER="+filepath.Join(dir, "autograder"), "GRADER_HOME="+filepath.Join(dir, "home"),
		// The home folder changes, but Go's caches do not.
		"GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"),
		"PATH="+filepath.Join(dir, "stand-ins")+string(os.PathListSeparator)+os.Getenv("PATH"))
	command.Env = append(command.Env, env...)
	combined, err := command.CombinedOutput()
	return string(combined), err
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}

func TestGradescopeAutograder(t *testing.T) {
	longtest.Proof(t)
	// GitHub's ZIP of a repository with several labs.
	dir := workspace(t, func(dir string) {
		for _, folder := range []string{"operators-main/labs/01-icecream", "operators-main/labs/02-reconciler"} {
			solution(t, folder)(dir)
		}
	})
	if err := os.MkdirAll(filepath.Join(dir, "autograder", "source"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"operator-labs": "autograder/source/operator-labs",
		"submission":    "autograder/submission",
	} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := gradescope(t, dir, "setup.sh"); err != nil {
		t.Fatalf("setup.sh: %v\n%s", err, output)
	}
	results := filepath.Join(dir, "autograder", "results", "results.json")
	var result struct {
		Score      int
		Visibility string
		Tests      []struct{ Name, Status, Output string }
	}
	grade := func() {
		t.Helper()
		output, err := gradescope(t, dir, "run_autograder")
		if err != nil {
			t.Fatalf("run_autograder: %v\n%s", err, output)
		}
		if err := json.Unmarshal([]byte(read(t, results)), &result); err != nil {
			t.Fatal(err)
		}
	}
	if grade(); result.Score != 100 || result.Visibility != "visible" || len(result.Tests) == 0 {
		t.Errorf("result is %+v, want full marks", result)
	}
	// A submission without the lab's module also gets a result, which contains the reason.
	if err := os.RemoveAll(
		filepath.Join(dir, "autograder", "submission", "operators-main", "labs", "01-icecream"),
	); err != nil {
		t.Fatal(err)
	}
	if grade(); result.Score != 0 || result.Tests[0].Status != "failed" ||
		!strings.Contains(result.Tests[0].Output, "none of its Go modules is that of lab 1") {
		t.Errorf("result is %+v, want one that reports a missing module", result)
	}
}
