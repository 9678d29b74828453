// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package templates

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/docs"
)

// workflow contains the parts of a workflow of GitHub Actions that these tests read.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Env         map[string]string `json:"env"`
	Jobs        map[string]struct {
		RunsOn         string            `json:"runs-on"`
		TimeoutMinutes int               `json:"timeout-minutes"`
		Permissions    map[string]string `json:"permissions"`
		Steps          []step            `json:"steps"`
	} `json:"jobs"`
}

type step struct {
	Name, ID, If, Uses, Run string
	With                    map[string]any
	Env                     map[string]string
}

const (
	gradeFile = "../../../../docs/templates/grade.yml"
	pagesFile = "../../../../docs/templates/pages.yml"
)

// pinned matches the actions of a workflow that are pinned to a commit.
var pinned = regexp.MustCompile(`(?m)uses: [a-z-]+/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func gradeWorkflow(t *testing.T) (parsed workflow, text string) {
	t.Helper()
	return readWorkflow(t, gradeFile)
}

func readWorkflow(t *testing.T, file string) (parsed workflow, text string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed, string(content)
}

// A workflow that courses copy must give a student's code only the permissions that it needs.
func TestWorkflowIsHardened(t *testing.T) {
	t.Parallel()
	parsed, text := gradeWorkflow(t)
	if len(parsed.Permissions) != 1 || parsed.Permissions["contents"] != "read" {
		t.Errorf("permissions are %v, want contents: read", parsed.Permissions)
	}
	for _, bad := range []string{"pull_request_target", "secrets.", "github.token", "write-all"} {
		if strings.Contains(text, bad) {
			t.Errorf("the workflow has %q", bad)
		}
	}
	if uses, good := strings.Count(text, "uses: "), len(pinned.FindAllString(text, -1)); uses == 0 || uses != good {
		t.Errorf("of %d actions %d are pinned to a commit, with their version as a comment", uses, good)
	}
	for name, job := range parsed.Jobs {
		if job.TimeoutMinutes == 0 || len(job.Permissions) > 0 {
			t.Errorf("the job %s has no time limit, or permissions of its own", name)
		}
		saved, graded := -1, -1
		for i, s := range job.Steps {
			if strings.Contains(s.Run, "${{") {
				t.Errorf("%s: an expression in a script would be run as a part of it: pass it in env", s.Name)
			}
			if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
				t.Errorf("%s: the checkout leaves a token behind", s.Name)
			}
			if strings.HasPrefix(s.Uses, "actions/cache/save@") {
				saved = i
			}
			if s.ID == "grade" {
				graded = i
			}
		}
		if saved < 0 || graded < saved {
			t.Errorf("step %d saves the cache, after the student's code ran in step %d", saved, graded)
		}
		if last := job.Steps[len(job.Steps)-1]; last.Name != "Verdict" || !strings.Contains(last.If, "!cancelled()") {
			t.Errorf("last step is %+v, want the verdict, even after a failure", last)
		}
	}
}

// The job that may publish runs no code of the repository. It publishes only what another job has built.
func TestPublishingJobRunsNoRepositoryCode(t *testing.T) {
	t.Parallel()
	parsed, text := readWorkflow(t, pagesFile)
	if uses, good := strings.Count(text, "uses: "), len(pinned.FindAllString(text, -1)); uses == 0 || uses != good {
		t.Errorf("of %d actions %d are pinned to a commit, with their version as a comment", uses, good)
	}
	if len(parsed.Permissions) != 1 || parsed.Permissions["contents"] != "read" ||
		len(parsed.Jobs["build"].Permissions) > 0 {
		t.Errorf("permissions are %v, and those of the build %v, want contents: read",
			parsed.Permissions, parsed.Jobs["build"].Permissions)
	}
	deploy := parsed.Jobs["deploy"]
	if len(deploy.Permissions) != 2 || deploy.Permissions["pages"] != "write" ||
		deploy.Permissions["id-token"] != "write" {
		t.Errorf("permissions of the publishing job are %v", deploy.Permissions)
	}
	for _, s := range deploy.Steps {
		if s.Run != "" || strings.HasPrefix(s.Uses, "actions/checkout@") {
			t.Errorf("the publishing job runs %s", s.Name)
		}
	}
}

// Operator Labs publishes its own site with the workflow that others copy.
func TestPagesWorkflowMatchesTemplate(t *testing.T) {
	t.Parallel()
	_, template := readWorkflow(t, pagesFile)
	_, own := readWorkflow(t, "../../../../.github/workflows/pages.yml")
	if own != template {
		t.Error("the workflow differs from its template: cp docs/templates/pages.yml .github/workflows/pages.yml")
	}
}

// If a change of a page does not publish the site, nothing shows it for a long time.
func TestEveryPageTriggersPublishing(t *testing.T) {
	t.Parallel()
	var parsed struct {
		On struct {
			Push struct {
				Branches, Paths []string
			}
		} `json:"true"` // To YAML 1.1, the key on is a boolean.
	}
	content, err := os.ReadFile(pagesFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(parsed.On.Push.Branches, []string{"main"}) ||
		!strings.Contains(string(content), "\n  workflow_dispatch:\n") {
		t.Errorf("the workflow runs on %+v, want pushes to main, and workflow_dispatch", parsed.On)
	}
	pages, err := docs.Pages("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "solutions/") {
			continue // It is the source of a lab's page.
		}
		if !slices.ContainsFunc(parsed.On.Push.Paths, func(pattern string) bool {
			// GitHub's patterns use ** for any folders, which path.Match does not support.
			folder, below := strings.CutSuffix(pattern, "**")
			matches, err := path.Match(pattern, page)
			return err == nil && matches || below && strings.HasPrefix(page, folder)
		}) {
			t.Errorf("a push that changes %s does not publish the site", page)
		}
	}
}

// runner implements as much of GitHub's runner as the scripts of a workflow need.
type runner struct {
	t         *testing.T
	workspace string
	env       []string
	// values are the values of expressions, by their text.
	values  map[string]string
	summary string
	failed  bool
	log     bytes.Buffer
}

var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

func (r *runner) expand(text string) string {
	return expression.ReplaceAllStringFunc(text, func(match string) string {
		return r.value(expression.FindStringSubmatch(match)[1])
	})
}

func (r *runner) value(name string) string {
	value, known := r.values[name]
	if !known && strings.HasPrefix(name, "steps.") {
		return "" // GitHub's value for a step that did not run or set it
	}
	if !known {
		r.t.Fatalf("these tests do not know the expression %q", name)
	}
	return value
}

// comparison matches the only kind of condition in the workflow, besides !cancelled().
var comparison = regexp.MustCompile(`^(\S+) (==|!=) '(.*)'$`)

// wanted reports whether a step runs.
func (r *runner) wanted(condition string) bool {
	if match := expression.FindStringSubmatch(condition); match != nil {
		condition = match[1]
	}
	parts := strings.Split(condition, " && ")
	if condition == "" || !slices.Contains(parts, "!cancelled()") {
		if r.failed {
			return false
		}
	}
	for _, part := range parts {
		if part == "" || part == "!cancelled()" {
			continue
		}
		match := comparison.FindStringSubmatch(part)
		if match == nil {
			r.t.Fatalf("these tests do not know the condition %q", part)
		}
		if (r.value(match[1]) == match[3]) != (match[2] == "==") {
			return false
		}
	}
	return true
}

// run runs the scripts of all steps, with the shell and the options that GitHub uses, and ignores actions.
func (r *runner) run(w workflow) {
	r.t.Helper()
	output := filepath.Join(r.workspace, "output")
	summary := filepath.Join(r.workspace, "summary")
	for _, s := range w.Jobs["grade"].Steps {
		if !r.wanted(s.If) || s.Run == "" {
			continue
		}
		for _, file := range []string{output, summary} {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				r.t.Fatal(err)
			}
		}
		script := filepath.Join(r.workspace, "script.sh")
		if err := os.WriteFile(script, []byte(s.Run), 0o600); err != nil {
			r.t.Fatal(err)
		}
		command := exec.CommandContext(r.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		command.Dir = r.workspace
		command.Env = append(slices.Clone(r.env), "GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+summary)
		for _, env := range []map[string]string{w.Env, s.Env} {
			for name, value := range env {
				command.Env = append(command.Env, name+"="+r.expand(value))
			}
		}
		fmt.Fprintf(&r.log, "--- %s\n", s.Name)
		command.Stdout, command.Stderr = &r.log, &r.log
		err := command.Run()
		if s.ID != "" {
			r.values["steps."+s.ID+".outcome"] = map[bool]string{true: "success", false: "failure"}[err == nil]
			for line := range strings.Lines(read(r.t, output)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				r.values["steps."+s.ID+".outputs."+name] = value
			}
		}
		r.summary += read(r.t, summary)
		if err != nil {
			fmt.Fprintf(&r.log, "failed: %v\n", err)
			r.failed = true
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
