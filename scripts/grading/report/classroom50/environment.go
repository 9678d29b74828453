// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package classroom50

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FromEnvironment reads the Options from the environment: from the variables that Classroom 50's runner sets for an
// autograder, and if one is missing, from those of GitHub Actions. docs/guides/classrooms.md lists them. One error
// names everything that it can't find out.
func FromEnvironment(getenv func(string) string) (Options, error) {
	e := environment{getenv: getenv}
	e.Classroom = e.need("CLASSROOM", "the short name of the classroom")
	e.Assignment = e.need("ASSIGNMENT", "the short name of the assignment")
	e.AssignmentType = cmp.Or(getenv("ASSIGNMENT_TYPE"), AssignmentTypes[0])
	if !slices.Contains(AssignmentTypes, e.AssignmentType) {
		e.problem("ASSIGNMENT_TYPE is %q and must be one of %s", e.AssignmentType, strings.Join(AssignmentTypes, ", "))
	}
	e.owner()
	e.submitted()
	e.links()
	if login := getenv("GITHUB_ACTOR"); login != "" {
		id, _ := strconv.ParseInt(getenv("GITHUB_ACTOR_ID"), 10, 64) // optional: 0 is left out
		e.SubmittedBy = &User{Username: login, ID: max(0, id)}
	}
	if len(e.problems) > 0 {
		return Options{}, fmt.Errorf("Classroom 50's result.json needs more "+ //nolint:staticcheck // the name of a product
			"than is known here: %s; see docs/guides/classrooms.md", strings.Join(e.problems, "; "))
	}
	return e.Options, nil
}

type environment struct {
	Options
	getenv   func(string) string
	problems []string
}

func (e *environment) problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

func (e *environment) need(variable, meaning string) string {
	value := e.getenv(variable)
	if value == "" {
		e.problem("%s (%s) is not set", variable, meaning)
	}
	return value
}

// owner sets the owner, which the runner names. Elsewhere, owner takes it from the repository's name, which Classroom
// 50 forms as classroom-assignment-owner. The user who pushed does not count, because that may have been the teacher.
func (e *environment) owner() {
	if e.Owner = cmp.Or(e.getenv("OWNER"), e.getenv("USERNAME")); e.Owner != "" {
		return
	}
	_, name, _ := strings.Cut(e.getenv("GITHUB_REPOSITORY"), "/")
	prefix := strings.ToLower(e.Classroom + "-" + e.Assignment + "-")
	if owner, found := strings.CutPrefix(strings.ToLower(name), prefix); found && owner != "" && e.Classroom != "" {
		e.Owner = owner
		return
	}
	e.problem("OWNER (the student's login) is not set, and the repository %q is not called %sLOGIN", name, prefix)
}

// submitted sets the time of the commit, which the event that started the workflow contains.
func (e *environment) submitted() {
	if text := e.getenv("SUBMITTED_AT"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			e.problem("SUBMITTED_AT is %q and must be a time such as 2026-06-01T14:32:05Z", text)
		}
		e.Submitted = at
		return
	}
	file := e.getenv("GITHUB_EVENT_PATH")
	if file == "" {
		return
	}
	var event struct {
		HeadCommit struct {
			ID        string    `json:"id"`
			Timestamp time.Time `json:"timestamp"`
		} `json:"head_commit"`
	}
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &event)
	}
	if err != nil {
		e.problem("the event of the workflow can't be read: %v", err)
		return
	}
	if event.HeadCommit.ID == e.getenv("GITHUB_SHA") { // otherwise the workflow was not started by a push
		e.Submitted = event.HeadCommit.Timestamp
	}
}

// links sets the submission's tag and the URLs of its pages.
func (e *environment) links() {
	const prefix = "submit/"
	sha := e.getenv("GITHUB_SHA")
	repository := ""
	if server, name := e.getenv("GITHUB_SERVER_URL"), e.getenv("GITHUB_REPOSITORY"); server != "" && name != "" {
		repository = server + "/" + name
	}
	e.Submission = e.getenv("SUBMISSION_TAG")
	if tag := e.getenv("GITHUB_REF_NAME"); e.Submission == "" && e.getenv("GITHUB_REF_TYPE") == "tag" &&
		strings.HasPrefix(tag, prefix) {
		e.Submission = tag
	}
	if e.Submission == "" && len(sha) >= 7 && !e.Submitted.IsZero() {
		// The runner gives this name to the tag that it creates for a push.
		e.Submission = prefix + e.Submitted.UTC().Format("2006-01-02T15-04-05Z") + "-" + sha[:7]
	}
	switch {
	case e.Submission == "":
		e.problem("SUBMISSION_TAG (the tag of the submission, %s…) is not set, "+
			"and GITHUB_SHA with SUBMITTED_AT is not either", prefix)
	case !strings.HasPrefix(e.Submission, prefix):
		e.problem("SUBMISSION_TAG is %q and must begin with %s", e.Submission, prefix)
	}
	if e.Commit = e.getenv("COMMIT_URL"); e.Commit == "" && repository != "" && sha != "" {
		e.Commit = repository + "/commit/" + sha
	}
	if e.Release = e.getenv("RELEASE_URL"); e.Release == "" && repository != "" && e.Submission != "" {
		e.Release = repository + "/releases/tag/" + url.PathEscape(e.Submission)
	}
	e.Review = cmp.Or(e.getenv("REVIEW_URL"), e.Commit)
	if e.Commit == "" {
		e.problem("COMMIT_URL is not set, and GITHUB_SERVER_URL, GITHUB_REPOSITORY and GITHUB_SHA are not either")
	}
	if e.Release == "" {
		e.problem("RELEASE_URL is not set, and GITHUB_SERVER_URL and GITHUB_REPOSITORY are not either")
	}
}
