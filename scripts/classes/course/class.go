// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/classes/course/intake"
	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/classes/course/rules"
	"lva.io/operators/scripts/grading/report"
)

// Lab is a lab for which a class is graded.
type Lab struct {
	Name, Title string
	Number      int
	// Max is the lab's maximum number of points. Checks are the lab's checks.
	Max    int
	Checks []page.Check
	// Grader identifies all code that grades the lab, as in Key.
	Grader string
	// Deployed and Within are as in Job.
	Deployed bool
	Within   time.Duration
}

// Class has the submissions of a class, and the results that are known so far.
type Class struct {
	Title       string
	Labs        []Lab
	Submissions []intake.Submission
	Rules       *rules.Rules
	Seed        uint32
	// Walls describe the sandbox in words. Notices are sentences for the instructor.
	Walls   string
	Notices []string
	// Results are the results of Run.
	Results map[Key]Result
}

// Outcomes of a gradebook for labs without the outcome of a report.
const (
	// Missing means that the student handed in nothing.
	Missing = "missing"
	// Unusable means that the student's files do not contain a module of the lab.
	Unusable = "unusable"
	// Ungraded means that the submission has not been graded yet.
	Ungraded = "ungraded"
	// Excused means that the instructor decided that the lab does not count for the student.
	Excused = "excused"
)

// lab finds a lab of the class by its name. It returns nil if there is none.
func (c *Class) lab(name string) *Lab {
	i := slices.IndexFunc(c.Labs, func(l Lab) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Labs[i]
}

// key returns the key of a submission. ok is false if the submission can't be graded.
func (c *Class) key(s intake.Submission) (k Key, ok bool) {
	lab := c.lab(s.Lab)
	if lab == nil || s.Problem != "" || s.Digest == "" || s.Dir == "" {
		return Key{}, false
	}
	return Key{Lab: s.Lab, Digest: s.Digest, Grader: lab.Grader, Seed: c.Seed}, true
}

// Jobs returns the jobs of the class: one lab after the other, and in the order of its submissions. Equal work is
// graded once.
func (c *Class) Jobs() []Job {
	var jobs []Job
	index := map[Key]int{}
	students := map[Key]map[string]bool{}
	for _, s := range c.Submissions {
		key, ok := c.key(s)
		if !ok {
			continue
		}
		if i, known := index[key]; known {
			if !students[key][s.Student] {
				jobs[i].Others++
			}
			students[key][s.Student] = true
			continue
		}
		lab := c.lab(s.Lab)
		index[key], students[key] = len(jobs), map[string]bool{s.Student: true}
		jobs = append(jobs, Job{Key: key, Dir: s.Dir, Student: s.Student, Deployed: lab.Deployed, Within: lab.Within})
	}
	place := func(j Job) int { return slices.IndexFunc(c.Labs, func(l Lab) bool { return l.Name == j.Lab }) }
	slices.SortStableFunc(jobs, func(a, b Job) int { return place(a) - place(b) })
	return jobs
}

// Row is a student's row in the gradebook.
type Row struct {
	Student string
	// Cells are in the order of the labs.
	Cells []Cell
	// Total is the percentage of all labs by their weights. Known is false if a lab has no grade for a reason that is
	// not the student's.
	Total float64
	Known bool
}

// Cell is a student's result in a lab.
type Cell struct {
	Lab  string
	Mark rules.Mark
	// Outcome is the outcome of the report, or one of Missing, Unusable, Ungraded and Excused.
	Outcome string
	// Problem explains why there is no report, or no grade.
	Problem string
	// Known is false if the mark must not be published, because an attempt without a grade might have counted, and the
	// reason for that is not the student's.
	Known bool
	// Attempts are all attempts of the student, oldest first. Counted is the attempt that Outcome belongs to. Nil: nothing
	// was handed in.
	Attempts []Attempt
	Counted  *Attempt
}

// Attempt is one submission with its result.
type Attempt struct {
	intake.Submission
	// Result is nil if the submission was not graded.
	Result *Result
}

// decided reports whether there is a verdict.
func (a *Attempt) decided() bool { return a.Result != nil && a.Result.final() }

// Rows returns the rows of the gradebook, ordered by student.
func (c *Class) Rows() []Row {
	byStudent := map[string]map[string][]Attempt{}
	for _, s := range c.Submissions {
		if c.lab(s.Lab) == nil {
			continue
		}
		if byStudent[s.Student] == nil {
			byStudent[s.Student] = map[string][]Attempt{}
		}
		attempt := Attempt{Submission: s}
		if key, ok := c.key(s); ok {
			if result, ok := c.Results[key]; ok {
				attempt.Result = &result
			}
		}
		byStudent[s.Student][s.Lab] = append(byStudent[s.Student][s.Lab], attempt)
	}
	var rows []Row
	for _, student := range slices.Sorted(maps.Keys(byStudent)) {
		rows = append(rows, c.row(student, byStudent[student]))
	}
	return rows
}

func (c *Class) row(student string, handedIn map[string][]Attempt) Row {
	for _, attempts := range handedIn {
		slices.SortStableFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.Attempt, b.Attempt) })
	}
	attempts := map[string][]rules.Attempt{}
	for _, lab := range c.Labs {
		attempts[lab.Name] = nil
		for _, a := range handedIn[lab.Name] {
			known := rules.Attempt{Number: a.Attempt, Submitted: a.Submitted, Max: lab.Max}
			if a.decided() {
				known.Points, known.Max, known.Valid = a.Result.Score, a.Result.Max, true
			}
			attempts[lab.Name] = append(attempts[lab.Name], known)
		}
	}
	marks, total := c.Rules.Marks(student, attempts)
	row := Row{Student: student, Total: total, Known: true}
	for _, lab := range c.Labs {
		cell := newCell(lab.Name, marks[lab.Name], handedIn[lab.Name])
		row.Known = row.Known && cell.Known
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// newCell finds the attempt that counts. If no attempt has a verdict, it takes the last one, so that the gradebook
// shows its reason.
func newCell(lab string, mark rules.Mark, attempts []Attempt) Cell {
	cell := Cell{Lab: lab, Mark: mark, Outcome: Missing, Known: true, Attempts: attempts}
	if len(attempts) > 0 {
		cell.Counted = &attempts[len(attempts)-1]
	}
	for i := range attempts {
		if a := &attempts[i]; a.decided() && a.Attempt == mark.Attempt {
			cell.Counted = a
		}
	}
	if cell.Counted != nil {
		cell.Outcome, cell.Problem = cell.Counted.outcome()
	}
	full := mark.Max > 0 && mark.Points == mark.Max && mark.Penalty == 0
	for i := range attempts {
		if a := &attempts[i]; a.undecided() && !full && !mark.Excused {
			cell.Known = false
			if a != cell.Counted {
				_, why := a.outcome()
				cell.Problem = strings.TrimPrefix(
					fmt.Sprintf("%s; attempt %d has no grade: %s", cell.Problem, a.Attempt, why), "; ",
				)
			}
		}
	}
	if mark.Excused {
		cell.Outcome, cell.Problem = Excused, ""
	}
	return cell
}

// undecided reports whether there is no verdict for a reason that is not the student's.
func (a *Attempt) undecided() bool { return a.Problem == "" && !a.decided() }

// outcome returns a word for the gradebook, and the reason why there is no grade.
func (a *Attempt) outcome() (word, problem string) {
	switch {
	case a.Problem != "":
		return Unusable, a.Problem
	case a.Result == nil:
		return Ungraded, "it has not been graded yet: run the command again"
	case !a.decided():
		return string(report.Error), a.Result.Report.Reason
	}
	return string(a.Result.Report.Outcome), a.Result.Report.Reason
}
