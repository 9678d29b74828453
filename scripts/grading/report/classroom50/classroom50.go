// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package classroom50 writes a report as Classroom 50's result.json.
package classroom50

import (
	"io"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// Schema names the version of Classroom 50's result.json.
const Schema = "classroom50/result/v1"

// Options are the facts about a submission that Classroom 50 needs and that a report does not contain: its owner and
// its location. FromEnvironment returns them.
type Options struct {
	// Classroom and Assignment are their short names in Classroom 50.
	Classroom, Assignment string
	// AssignmentType is one of AssignmentTypes.
	AssignmentType string
	// Owner is the login of the student, or of the group's repository.
	Owner string
	// Submission is the name of the tag: submit/2026-06-01T14-32-05Z-a1b2c3d.
	Submission string
	// Commit, Release and Review are URLs of web pages. Review shows the difference from the code that the student started
	// with.
	Commit, Release, Review string
	// Submitted is when the graded commit was created. It decides whether the submission is late. Zero means the start of
	// the run.
	Submitted time.Time
	// SubmittedBy is the user who pushed, or nil if that is not known.
	SubmittedBy *User
}

// AssignmentTypes are the types of assignments that Classroom 50 knows.
var AssignmentTypes = []string{"individual", "group", "team"}

// User is a user of GitHub.
type User struct {
	Username string `json:"username"`
	ID       int64  `json:"id,omitempty"`
}

// result is result.json. Its schema is closed: only tests may have fields that Classroom 50 does not know.
type result struct {
	Schema         string `json:"schema"`
	Classroom      string `json:"classroom"`
	Assignment     string `json:"assignment"`
	AssignmentType string `json:"assignment_type"`
	Owner          string `json:"owner"`
	Submission     string `json:"submission"`
	Commit         string `json:"commit"`
	Release        string `json:"release"`
	Review         string `json:"review"`
	Datetime       string `json:"datetime"`
	GradedAt       string `json:"graded_at"`
	SubmittedBy    *User  `json:"submitted_by,omitempty"`
	Score          int    `json:"score"`
	MaxScore       int    `json:"max-score"`
	Tests          []test `json:"tests"`
}

type test struct {
	Name     string `json:"test-name"`
	Passed   bool   `json:"passed"`
	Score    int    `json:"score"`
	MaxScore int    `json:"max-score"`
	// The following fields are our own. Classroom 50 keeps them as they are.
	Title  string `json:"title"`
	Status string `json:"status"`
	Output string `json:"output"`
}

// Write writes Classroom 50's result.json. A file without tests would count as a pass with 0 of 0 points, so a run
// without a grade has a test that did not pass and that contains the reason.
func Write(w io.Writer, r *report.Report, o Options) error {
	submitted := o.Submitted
	if submitted.IsZero() {
		submitted = r.Started
	}
	ended := r.Started.Add(time.Duration(r.Seconds * float64(time.Second)))
	written := result{
		Schema: Schema, Classroom: o.Classroom, Assignment: o.Assignment, AssignmentType: o.AssignmentType, Owner: o.Owner,
		Submission: o.Submission, Commit: o.Commit, Release: o.Release, Review: o.Review,
		Datetime: timeText(submitted), GradedAt: timeText(ended), SubmittedBy: o.SubmittedBy,
	}
	if title, left := r.WithoutGrade(); title != "" {
		written.Tests = append(written.Tests, test{
			Name: report.RunTest, MaxScore: left, Title: title, Status: string(r.Outcome), Output: title + ": " + r.RunText(),
		})
	}
	for i := range r.Checks {
		check := &r.Checks[i]
		one := test{
			Name: check.ID, MaxScore: check.MaxPoints,
			Title: check.Title, Status: string(check.Status), Output: check.PlainText(),
		}
		if check.Extension {
			// Its points are not among the lab's. The test only shows whether it passed.
			if one.MaxScore = 0; check.Status == report.Skipped {
				continue
			}
		}
		if check.Status == report.Passed {
			one.Passed, one.Score = true, one.MaxScore
		}
		written.Tests = append(written.Tests, one)
	}
	for _, one := range written.Tests {
		written.Score += one.Score
		written.MaxScore += one.MaxScore
	}
	return report.WriteJSON(w, written, "Classroom 50's result.json")
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
