// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package page writes what people read of a class run: the page of the class for its instructor, one page for each
// student, and the gradebook. It grades nothing and adds up nothing that decides a grade: points and marks are those
// that it is given.
//
// Names, paths, code and what was observed come from strangers. They are text on every page, and no page loads
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
	// Title is the course's name, for people. Empty: "Class".
	Title string
	// Started is when the run began, and Took how long it ran, over all resumptions.
	Started time.Time
	Took    time.Duration
	// Walls are those of the sandbox that stood, in words. Empty: it is not said.
	Walls string
	// Notices are what the instructor should know of the run, a sentence each.
	Notices []string
	// Labs are those that were graded, in the order of the course.
	Labs []Lab
	// Students are all of the roster, in any order. Their names are unique.
	Students []Student
	// Misconceptions are in the order in which they are shown: see Explain.
	Misconceptions []Misconception
	// Alike are pairs of submissions to look at, the most alike first.
	Alike []Alike
	// Source returns a file of what a student handed in for a lab, to show regions of Alike side by side. Nil, or an
	// error: only the lines' numbers are shown.
	Source func(student, lab, file string) ([]byte, error)
	// Run are the runs of the class, in any order.
	Run []Span
	// LectureBase leads from the page to the root of the repository, or of the site that has its documents: relative,
	// and ending with a slash, as "../../". Empty: lectures are named, not linked.
	LectureBase string
}

// Lab is a lab of the class.
type Lab struct {
	// Name is that of labs.yaml, as 02-reconciler.
	Name   string
	Number int
	Title  string
	// Max are the points to be had, without an extension's. Default: 100.
	Max    int
	Checks []Check
}

// Check is a check of labs.yaml.
type Check struct {
	ID, Title string
	Points    int
	// Lecture is the heading that explains it: file#anchor, from the root of the repository.
	Lecture string
	// Hidden is true of a check that students are not told of: Feedback neither names it nor says what it saw.
	Hidden bool
}

// Student is one with what they handed in.
type Student struct {
	Name string
	// Total is the mark of the course in percent.
	Total float64
	// Works are at most one for each lab: the attempt that counts. A lab without one is missing.
	Works []Work
}

// Outcomes that no report has.
const (
	// OutcomeUnreadable is that of what could not be graded since nothing in it is a submission: see Work.Reason.
	OutcomeUnreadable = "unreadable"
	// OutcomeExcused is that of a lab that does not count for the student.
	OutcomeExcused = "excused"
)

// Work is the attempt of a student at a lab that counts.
type Work struct {
	// Lab is its name.
	Lab string
	// Attempt is the one that counts, from 1, of so many Attempts.
	Attempt, Attempts int
	// Points are those of the run, of Max.
	Points, Max int
	// Final are the points after everything that follows.
	Final float64
	// Late are the days after the deadline, of which Grace cost nothing, Penalty the points that the others cost, and
	// Manual the points that the instructor gave or, below 0, took.
	Late, Grace     int
	Penalty, Manual float64
	// Comment is the instructor's, for the student.
	Comment string
	// Outcome is that of the report, as graded, or one that no report has; Reason is a sentence for all but graded.
	Outcome, Reason string
	// Failed are the checks that failed, in the order of the lab, and Skipped those that were not tried.
	Failed  []Failure
	Skipped []string
	// Scores are the points of all runs if it was graded several times. Points are one of them.
	Scores []int
	// Look says why a person should look at it, a few words each, besides what follows from Outcome and Scores.
	Look []string
	// Report is the path of the report's HTML page, relative to the page that is written. Empty: there is none.
	Report string
}

// Failure is a check that failed.
type Failure struct{ Check, Expected, Observed string }

// Misconception is a mistake that several students may have made.
type Misconception struct {
	Lab string
	// Sentences are misconceptions between which the checks can't tell, at least one.
	Sentences []string
	// Students are names.
	Students []string
	// Exact is true where each of them failed exactly the checks that the misconceptions fail.
	Exact bool
	// Lectures are the headings to repeat: file#anchor.
	Lectures []string
}

// Alike is a pair of submissions for one lab; its names are those of students.
type Alike struct {
	Lab string
	similarity.Pair
}

// Span is one run in the time line.
type Span struct {
	Student, Lab string
	// Slot counts from 0.
	Slot int
	// Start is the time since the class run began.
	Start, Took time.Duration
	// Outcome and Points are as in Work. Max of 0 means that the points are not known.
	Outcome     string
	Points, Max int
}

// Explain finds the misconceptions behind what failed in a lab, the most frequent first. The misconceptions that
// package misconception knows are those of this lab.
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

// work is what the student handed in for a lab; nil if nothing.
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

// full are the lab's points.
func (l *Lab) full() int {
	if l.Max == 0 {
		return 100
	}
	return l.Max
}

// hasGrade reports whether the outcome says anything of the submission: see report.Report.SaysNothing.
func (w *Work) hasGrade() bool {
	switch w.Outcome {
	case "error", "interrupted", "unfinished", OutcomeUnreadable, OutcomeExcused:
		return false
	}
	return true
}
