// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules are the rules of a course. Load, Parse and Default make them.
type Rules struct {
	// Title is the title of the class page. Empty: the file has none.
	Title string
	// Zone is the time zone in which the course's days begin. Default: UTC.
	Zone *time.Location

	course   lab
	labs     map[string]lab // by the key of the file
	students map[string]student
}

// lab holds the rules of a lab, or of all of them. A nil pointer and an empty text mean that the file has no such line.
type lab struct {
	deadline  *due
	weight    *hundredths
	attempts  string
	late      *latePenalty
	graceDays *int
	line      int
}

// latePenalty holds what a started day costs. The zero value means nothing.
type latePenalty struct {
	points, percent hundredths
	// days is the number of days after which nothing is accepted. Nil: there is no limit.
	days *int
}

type student struct {
	graceDays *int
	labs      map[string]decision
	line      int
}

// decision is an instructor's decision about a student's lab.
type decision struct {
	points   hundredths
	comment  string
	deadline *due
	excused  bool
	line     int
}

// hundredths is an exact number with two decimals.
type hundredths int64

// These words select which attempt counts.
const (
	best = "best"
	last = "last"
)

// Default returns the rules of a course without class.yaml: no deadlines, the best attempt counts, and all labs have
// the same weight.
func Default() *Rules { return &Rules{Zone: time.UTC} }

// Deadline returns the last moment at which a student's work on a lab is in time, or zero if the lab has no deadline.
// The student's own deadline takes precedence over the lab's. If student is empty, it returns the deadline of all
// others.
func (r *Rules) Deadline(student, lab string) time.Time {
	if d := r.due(student, lab); d != nil {
		return d.end
	}
	return time.Time{}
}

func (r *Rules) due(student, lab string) *due {
	if own, ok := find(r.students[student].labs, lab); ok && own.deadline != nil {
		return own.deadline
	}
	return r.lab(lab).deadline
}

// lab returns the rules of a lab: its own lines, and the course's where it has none.
func (r *Rules) lab(name string) lab {
	own, _ := find(r.labs, name)
	if own.attempts == "" {
		own.attempts = r.course.attempts
	}
	if own.late == nil {
		own.late = r.course.late
	}
	return own
}

// graceDays returns how many grace days a student has for the whole course.
func (r *Rules) graceDays(student string) int {
	for _, days := range []*int{r.students[student].graceDays, r.course.graceDays} {
		if days != nil {
			return *days
		}
	}
	return 0
}

// Unknown returns a sentence for each student and each lab of class.yaml that is not among those given: their names may
// be misspelled. labs are all labs of the course, by name.
func (r *Rules) Unknown(students, labs []string) (notices []string) {
	known := func(key string) bool {
		return slices.ContainsFunc(labs, func(lab string) bool { return names(key, lab) })
	}
	type notice struct {
		line int
		text string
	}
	var found []notice
	for key, lab := range r.labs {
		if !known(key) {
			found = append(found, notice{lab.line, fmt.Sprintf("there is no lab %s", key)})
		}
	}
	for name, student := range r.students {
		if !slices.Contains(students, name) {
			found = append(found, notice{student.line, fmt.Sprintf("no student named %s has submitted anything", name)})
		}
		for key, own := range student.labs {
			if !known(key) {
				found = append(found, notice{own.line, fmt.Sprintf("there is no lab %s", key)})
			}
		}
	}
	slices.SortFunc(found, func(a, b notice) int { return a.line - b.line })
	for _, n := range found {
		notices = append(notices, fmt.Sprintf("line %d: %s: correct the name, or remove the line", n.line, n.text))
	}
	return notices
}

// find returns the value for a lab, under its name or its number.
func find[Value any](by map[string]Value, lab string) (value Value, ok bool) {
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if names(key, lab) {
			return by[key], true
		}
	}
	return value, false
}

// names reports whether a key of the file means a lab, by its name or its number.
func names(key, lab string) bool {
	if key == lab {
		return true
	}
	wanted, err := strconv.Atoi(key)
	if err != nil {
		return false
	}
	prefix, _, _ := strings.Cut(lab, "-")
	number, err := strconv.Atoi(prefix)
	return err == nil && number == wanted
}
