// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package page writes the pages of a class run for people: the page of the class for its instructor, one page for each
// student, and the gradebook. It does not grade, and computes nothing that decides a grade: the caller gives it points
// and marks.
//
// Names, paths, code and observations are untrusted. They appear as plain text on every page, and no page loads
// anything, runs a script or links to another host.
package page

import (
	"slices"
	"time"

	"lva.io/operators/scripts/classes/course/misconception"
	"lva.io/operators/scripts/classes/course/similarity"
)

// Class is a class run.
type Class struct {
	// Title is the course's title. Empty: "Class".
	Title string
	// Started is when the run began, and Took is its duration, summed over all resumptions.
	Started time.Time
	Took    time.Duration
	// Walls describe the active sandbox in words. Empty: the page does not mention it.
	Walls string
	// Notices are sentences about the run for the instructor.
	Notices []string
	// Labs are the graded labs, in the order of the course.
	Labs []Lab
	// Students are all students of the roster, in any order. Their names are unique.
	Students []Student
	// Misconceptions are listed in the order in which they are shown: see Explain.
	Misconceptions []Misconception
	// Alike are pairs of submissions to compare, the most similar first.
	Alike []Alike
	// Source returns a file of a student's submission for a lab, to show regions of Alike side by side. If it is nil or
	// returns an error, only the line numbers are shown.
	Source func(student, lab, file string) ([]byte, error)
	// Run are the runs of the class, in any order.
	Run []Span
	// LectureBase is the path or URL from the page to the root of the repository, or of the site that has its documents.
	// It is relative and ends with a slash, such as "../../". Empty: lectures are named, not linked.
	LectureBase string
}

// Lab is a lab of the class.
type Lab struct {
	// Name is the lab's name in labs.yaml, such as 02-reconciler.
	Name   string
	Number int
	Title  string
	// Max is the maximum number of points, without an extension's. Default: 100.
	Max    int
	Checks []Check
}

// Check is a check of labs.yaml.
type Check struct {
	ID, Title string
	Points    int
	// Lecture is the heading that explains the check: file#anchor, from the root of the repository.
	Lecture string
	// Hidden is true for a check that is hidden from students. Feedback neither names it nor shows its observation.
	Hidden bool
}

// Student is one student with the submissions.
type Student struct {
	Name string
	// Total is the mark of the course in percent.
	Total float64
	// Works has at most one entry for each lab: the attempt that counts. A lab without an entry is missing.
	Works []Work
}

// Outcomes that no report has.
const (
	// OutcomeUnreadable means that the student's files contain no submission: see Work.Reason.
	OutcomeUnreadable = "unreadable"
	// OutcomeExcused means that the lab does not count for the student.
	OutcomeExcused = "excused"
)

// Work is the attempt of a student at a lab that counts.
type Work struct {
	// Lab is its name.
	Lab string
	// Attempt is the number of the attempt that counts, from 1. Attempts is how many there are.
	Attempt, Attempts int
	// Points are the points of the run, of Max.
	Points, Max int
	// Final are the points after all adjustments.
	Final float64
	// Late is the number of days after the deadline. Grace of them cost nothing, and Penalty is the points that the others
	// cost. Manual is the points that the instructor added or, if negative, subtracted.
	Late, Grace     int
	Penalty, Manual float64
	// Comment is the instructor's comment for the student.
	Comment string
	// Outcome is the outcome of the report, such as graded, or one that no report has. Reason is a sentence for all
	// outcomes but graded.
	Outcome, Reason string
	// Failed are the checks that failed, in the order of the lab, and Skipped those that were not run.
	Failed  []Failure
	Skipped []string
	// Scores are the points of all runs if the work was graded several times. Points is one of them.
	Scores []int
	// Look has reasons for a manual review, a few words each, besides those that follow from Outcome and Scores.
	Look []string
	// Report is the path of the report's HTML page, relative to the page that is written. Empty: there is none.
	Report string
}

// Failure is a check that failed.
type Failure struct{ Check, Expected, Observed string }

// Misconception is a mistake that several students may have made.
type Misconception struct {
	Lab string
	// Sentences are misconceptions that the checks can't distinguish, at least one.
	Sentences []string
	// Students are the students' names.
	Students []string
	// Exact is true if each of the students failed exactly the checks that the misconceptions fail.
	Exact bool
	// Lectures are the headings to repeat: file#anchor.
	Lectures []string
}

// Alike is a pair of similar submissions for one lab. The names are those of students.
type Alike struct {
	Lab string
	similarity.Pair
}

// Span is one run in the timeline.
type Span struct {
	Student, Lab string
	// Slot counts from 0.
	Slot int
	// Start is the time since the class run began.
	Start, Took time.Duration
	// Outcome and Points are as in Work. Max of 0 means that the points are unknown.
	Outcome     string
	Points, Max int
}

// Explain finds the misconceptions behind the failures in a lab, the most frequent first. known are the misconceptions
// of this lab in package misconception.
func Explain(lab string, students []Student, known []misconception.Known) []Misconception {
	var failures []misconception.Student
	for _, s := range students {
		w := s.work(lab)
		if w == nil {
			continue
		}
		failed := misconception.Student{Name: s.Name}
		for _, f := range w.Failed {
			failed.Failed = append(failed.Failed, misconception.Failure{Check: f.Check, Observed: f.Observed})
		}
		failures = append(failures, failed)
	}
	var all []Misconception
	for _, g := range misconception.Groups(failures, known) {
		m := Misconception{Lab: lab, Students: g.Students, Exact: g.Exact}
		for _, k := range g.Known {
			m.Sentences = appendNew(m.Sentences, k.Misconception)
			if k.Lecture != "" {
				m.Lectures = appendNew(m.Lectures, k.Lecture)
			}
		}
		all = append(all, m)
	}
	return all
}

func appendNew(all []string, text string) []string {
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

// work returns what the student handed in for a lab. It returns nil if there is nothing.
func (s *Student) work(lab string) *Work {
	for i := range s.Works {
		if s.Works[i].Lab == lab {
			return &s.Works[i]
		}
	}
	return nil
}

func (c *Class) lab(name string) *Lab {
	for i := range c.Labs {
		if c.Labs[i].Name == name {
			return &c.Labs[i]
		}
	}
	return nil
}

func (l *Lab) check(id string) *Check {
	for i := range l.Checks {
		if l.Checks[i].ID == id {
			return &l.Checks[i]
		}
	}
	return nil
}

// full returns the lab's maximum number of points.
func (l *Lab) full() int {
	if l.Max == 0 {
		return 100
	}
	return l.Max
}

// hasGrade reports whether the outcome is one of the submission itself: see report.Report.Inconclusive.
func (w *Work) hasGrade() bool {
	switch w.Outcome {
	case "error", "interrupted", "unfinished", OutcomeUnreadable, OutcomeExcused:
		return false
	}
	return true
}
