// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
)

const sha = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"

// runner are the variables that Classroom 50's runner sets for an autograder, and github those of GitHub Actions for
// a push.
var (
	runner = map[string]string{
		"CLASSROOM": "operators", "ASSIGNMENT": "lab-2", "ASSIGNMENT_TYPE": "group", "OWNER": "alice", "USERNAME": "somebody",
		"SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d", "COMMIT_URL": "https://git.example/commit",
		"RELEASE_URL": "https://git.example/release", "REVIEW_URL": "https://git.example/compare",
		"SUBMITTED_AT": "2026-06-01T16:32:01+02:00",
	}
	github = map[string]string{
		"CLASSROOM": "Operators", "ASSIGNMENT": "lab-2", "GITHUB_SERVER_URL": "https://git.example", "GITHUB_SHA": sha,
		"GITHUB_REPOSITORY": "course/operators-lab-2-alice", "GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main",
		"GITHUB_ACTOR": "bob", "GITHUB_ACTOR_ID": "4711", "SUBMITTED_AT": "2026-06-01T14:32:05Z",
	}
)

func environment(base map[string]string, changes ...string) func(string) string {
	all := maps.Clone(base)
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

func TestClassroom50OfItsRunner(t *testing.T) {
	t.Parallel()
	got, err := classroom50.FromEnvironment(environment(runner))
	if err != nil {
		t.Fatal(err)
	}
	want := classroom50.Options{
		Classroom: "operators", Assignment: "lab-2", AssignmentType: "group", Owner: "alice",
		Submission: "submit/2026-06-01T14-32-05Z-a1b2c3d", Commit: "https://git.example/commit",
		Release: "https://git.example/release",
		Review:  "https://git.example/compare", Submitted: time.Date(2026, 6, 1, 14, 32, 1, 0, time.UTC),
	}
	got.Submitted = got.Submitted.UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClassroom50OfAPush(t *testing.T) {
	t.Parallel()
	got, err := classroom50.FromEnvironment(environment(github))
	if err != nil {
		t.Fatal(err)
	}
	const repository = "https://git.example/course/operators-lab-2-alice"
	want := classroom50.Options{
		Classroom: "Operators", Assignment: "lab-2", AssignmentType: "individual", Owner: "alice",
		Submission: "submit/2026-06-01T14-32-05Z-a1b2c3d", Commit: repository + "/commit/" + sha,
		Release: repository + "/releases/tag/submit%2F2026-06-01T14-32-05Z-a1b2c3d", Review: repository + "/commit/" + sha,
		Submitted: time.Date(2026, 6, 1, 14, 32, 5, 0, time.UTC), SubmittedBy: &classroom50.User{Username: "bob", ID: 4711},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data := encode(t, samples()["graded-failed"], formats.Classroom50, formats.Options{Classroom50: got})
	if err := conforms(schema(t, "classroom50"), data); err != nil {
		t.Error(err)
	}
	tag, err := classroom50.FromEnvironment(environment(github, "GITHUB_REF_TYPE=tag", "GITHUB_REF_NAME=submit/mine"))
	if err != nil || tag.Submission != "submit/mine" {
		t.Errorf("for a pushed tag, the submission is %q (%v), want submit/mine", tag.Submission, err)
	}
}

// The time of the commit decides whether a submission is late. The event contains this time, and the grader's clock
// is irrelevant.
func TestClassroom50UsesCommitTime(t *testing.T) {
	t.Parallel()
	event := func(content string) string {
		file := filepath.Join(t.TempDir(), "event.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "GITHUB_EVENT_PATH=" + file
	}
	push := event(`{"head_commit": {"id": "` + sha + `", "timestamp": "2026-06-01T16:00:00+02:00"}}`)
	got, err := classroom50.FromEnvironment(environment(github, "SUBMITTED_AT=", push))
	if err != nil || !got.Submitted.Equal(time.Date(2026, 6, 1, 14, 0, 0, 0, time.UTC)) {
		t.Errorf("Submitted = %s (%v), want the time of the commit", got.Submitted, err)
	}
	other := event(`{"head_commit": {"id": "another", "timestamp": "2026-06-01T16:00:00+02:00"}}`)
	if got, err = classroom50.FromEnvironment(
		environment(runner, "SUBMITTED_AT=", "GITHUB_SHA="+sha, other),
	); err != nil || !got.Submitted.IsZero() {
		t.Errorf("Submitted = %s (%v), want zero, because the event is about another commit", got.Submitted, err)
	}
	_, err = classroom50.FromEnvironment(environment(runner, "SUBMITTED_AT=", event("<html>")))
	wantError(t, err, "event of the workflow can't be read")
}

func TestClassroom50NamesMissingVariables(t *testing.T) {
	t.Parallel()
	_, err := classroom50.FromEnvironment(environment(nil))
	for _, want := range []string{
		"CLASSROOM ", "ASSIGNMENT ", "OWNER ", "SUBMISSION_TAG ", "COMMIT_URL ", "RELEASE_URL ", "docs/guides/classrooms.md",
	} {
		wantError(t, err, want)
	}
	for change, want := range map[string]string{
		"ASSIGNMENT_TYPE=pair":  `ASSIGNMENT_TYPE is "pair" and must be one of individual, group, team`,
		"SUBMISSION_TAG=v1.0.0": `SUBMISSION_TAG is "v1.0.0" and must begin with submit/`,
		"SUBMITTED_AT=today":    `SUBMITTED_AT is "today" and must be a time`,
	} {
		_, err := classroom50.FromEnvironment(environment(runner, change))
		wantError(t, err, want)
		if strings.Contains(err.Error(), ";") && strings.Count(err.Error(), ";") > 1 {
			t.Errorf("%s: error names other problems, too: %v", change, err)
		}
	}
	// The owner of a repository must never be inferred from the user who pushed.
	_, err = classroom50.FromEnvironment(environment(github, "GITHUB_REPOSITORY=course/another-name"))
	wantError(t, err, `OWNER .* the repository "another-name" is not called operators-lab-2-LOGIN`)
}
