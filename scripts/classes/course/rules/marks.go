// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Attempt is a submission with the points that grading it gave.
type Attempt struct {
	// Number is from 1, in the order in which attempts were handed in.
	Number int
	// Submitted is when it was handed in. If that is unknown, it is zero, and the attempt is in time.
	Submitted time.Time
	// Points are the points of the run, and Max is the maximum.
	Points, Max int
	// Valid is false if there is no grade, because grading itself failed. Such an attempt does not count.
	Valid bool
}

// Mark is a student's mark for a lab.
type Mark struct {
	// Attempt is the number of the attempt that counts. It is 0 if none does.
	Attempt int
	// Points are the points of the attempt, of at most Max. Without an attempt, Max is 100.
	Points, Max int
	// Late is how many days after the deadline had started when the attempt was handed in. Grace days are not subtracted.
	Late int
	// GraceUsed is how many of these days are grace days, which cost nothing.
	GraceUsed int
	// Penalty is how many of Points are lost because the attempt was late.
	Penalty float64
	// TooLate is true if the attempt was handed in after the last moment at which late work is accepted. Penalty is then
	// all of Points.
	TooLate bool
	// Manual are points that the instructor added, and Comment is the instructor's comment.
	Manual  float64
	Comment string
	// Final are the points after all adjustments. They are never below 0, and may be above Max because of Manual.
	Final float64
	// Missing is true if nothing was handed in.
	Missing bool
	// Ungraded is true if a submission exists and no attempt has a grade. It counts like a missing one until it is graded
	// again.
	Ungraded bool
	// Excused is true if the instructor decided that the lab does not count for this student.
	Excused bool
}

const (
	// fullPoints is the maximum number of points of a lab without a known attempt.
	fullPoints = 100
	// unit is the number of a score's units in one point. A percentage with two decimals of whole points is a whole number
	// of units.
	unit = 10_000
	// hundredth is one hundredth of a point, as a score.
	hundredth = unit / 100
)

// score is points in units of a 10,000th.
type score int64

func (s score) float() float64 { return float64(s) / unit }

// Marks computes a student's marks for each of the labs, which may have no attempts, and for all of them together:
// percent by weights, or 0 if no lab has any weight. It uses grace days where they give the best total, and as few of
// them as possible. Labs of class.yaml that are not among the given ones do not count.
func (r *Rules) Marks(student string, labs map[string][]Attempt) (marks map[string]Mark, total float64) {
	marks = map[string]Mark{}
	names := slices.Sorted(maps.Keys(labs))
	// options are the marks of a lab by the number of grace days that it gets.
	options := make([][]mark, len(names))
	budget := r.graceDays(student)
	for i, name := range names {
		options[i] = r.options(student, name, labs[name], budget)
	}
	var sum, weights big.Rat
	for i, days := range r.spend(names, options, budget) {
		chosen, weight := options[i][days], r.weight(names[i])
		marks[names[i]] = chosen.mark()
		if chosen.excused {
			continue
		}
		sum.Add(&sum, chosen.worth(weight))
		weights.Add(&weights, big.NewRat(int64(weight), 1))
	}
	if weights.Sign() == 0 {
		return marks, 0
	}
	sum.Quo(&sum, &weights)
	total, _ = sum.Mul(&sum, big.NewRat(100, 1)).Float64()
	return marks, total
}

func (r *Rules) weight(name string) hundredths {
	if own := r.lab(name).weight; own != nil {
		return *own
	}
	return 100
}

// mark is a Mark before its points are rounded.
type mark struct {
	attempt           Attempt
	late, grace       int
	penalty           score
	tooLate           bool
	manual, final     score
	comment           string
	missing, ungraded bool
	excused, accepted bool
}

// worth returns what a mark adds to the total.
func (m mark) worth(weight hundredths) *big.Rat {
	if m.excused {
		return new(big.Rat)
	}
	full := int64(cmp.Or(m.attempt.Max, fullPoints)) * unit
	return new(big.Rat).Mul(big.NewRat(int64(m.final), full), big.NewRat(int64(weight), 1))
}

func (m mark) mark() Mark {
	return Mark{
		Attempt: m.attempt.Number, Points: m.attempt.Points,
		Max: cmp.Or(m.attempt.Max, fullPoints), Late: m.late, GraceUsed: m.grace,
		Penalty: m.penalty.float(), TooLate: m.tooLate, Manual: m.manual.float(), Comment: m.comment, Final: m.final.float(),
		Missing: m.missing, Ungraded: m.ungraded, Excused: m.excused,
	}
}

// options returns a student's marks for a lab with 0, 1, 2, … grace days. More days than in the last one change
// nothing.
func (r *Rules) options(student, name string, attempts []Attempt, budget int) (options []mark) {
	most := 0
	for _, attempt := range attempts {
		if attempt.Valid {
			most = max(most, r.due(student, name).lateDays(attempt.Submitted))
		}
	}
	if own := r.lab(name).graceDays; own != nil {
		most = min(most, *own)
	}
	for days := range min(most, budget) + 1 {
		options = append(options, r.option(student, name, attempts, days))
	}
	return options
}

// option returns a student's mark for a lab with a number of grace days.
func (r *Rules) option(student, name string, attempts []Attempt, grace int) mark {
	lab, due := r.lab(name), r.due(student, name)
	var chosen *mark
	graded := false
	// Sort by number, whatever order the caller uses.
	attempts = slices.SortedStableFunc(slices.Values(attempts), func(a, b Attempt) int {
		return cmp.Compare(a.Number, b.Number)
	})
	for _, attempt := range attempts {
		if !attempt.Valid {
			continue
		}
		graded = true
		m := lab.late.apply(mark{attempt: attempt, late: due.lateDays(attempt.Submitted)}, grace)
		if chosen == nil || lab.prefers(&m, chosen) {
			chosen = &m
		}
	}
	if chosen == nil {
		chosen = &mark{missing: len(attempts) == 0, ungraded: len(attempts) > 0 && !graded}
	}
	if own, ok := find(r.students[student].labs, name); ok {
		chosen.manual, chosen.comment, chosen.excused = score(own.points)*hundredth, own.comment, own.excused
	}
	chosen.final = max(0, score(chosen.attempt.Points)*unit-chosen.penalty+chosen.manual)
	return *chosen
}

// apply subtracts the points of late days that are not grace days.
func (l *latePenalty) apply(m mark, grace int) mark {
	m.accepted = true
	m.grace = min(grace, m.late)
	if l == nil {
		m.grace = 0 // late days cost nothing
		return m
	}
	days, points := m.late-m.grace, score(m.attempt.Points)*unit
	if m.accepted = l.days == nil || days <= *l.days; !m.accepted {
		m.tooLate, m.penalty, m.grace = true, points, 0
		return m
	}
	each := score(l.points)*hundredth + score(m.attempt.Points)*score(l.percent)
	if m.penalty = each * score(days); m.penalty > points {
		m.penalty = max(0, points)
	}
	return m
}

// prefers reports whether an attempt counts instead of an earlier one. An attempt that is too late was not accepted,
// and never replaces one that was.
func (l lab) prefers(m, before *mark) bool {
	if m.accepted != before.accepted {
		return m.accepted
	}
	if l.attempts == last {
		return true
	}
	left := func(m *mark) score { return score(m.attempt.Points)*unit - m.penalty }
	return left(m) > left(before)
}

// spend decides how many grace days each lab gets, so that the total is as high as possible, with as few days as
// possible. If two distributions are equal, it uses the days for the labs that come first.
func (r *Rules) spend(names []string, options [][]mark, budget int) []int {
	// best[i][d] is the worth of labs i, i+1, … together with at most d days, and the number of days that lab i gets.
	type choice struct {
		worth *big.Rat
		days  int
		used  int
	}
	table := make([][]choice, len(names)+1)
	table[len(names)] = make([]choice, budget+1)
	for d := range table[len(names)] {
		table[len(names)][d] = choice{worth: new(big.Rat)}
	}
	for i := len(names) - 1; i >= 0; i-- {
		weight := r.weight(names[i])
		worth := make([]*big.Rat, len(options[i]))
		for days, option := range options[i] {
			worth[days] = option.worth(weight)
		}
		table[i] = make([]choice, budget+1)
		for d := range table[i] {
			var chosen choice
			for days := min(d, len(options[i])-1); days >= 0; days-- {
				rest := table[i+1][d-days]
				sum, used := new(big.Rat).Add(worth[days], rest.worth), days+rest.used
				better := 1
				if chosen.worth != nil {
					better = sum.Cmp(chosen.worth)
				}
				if better > 0 || better == 0 && used < chosen.used {
					chosen = choice{sum, days, used}
				}
			}
			table[i][d] = chosen
		}
	}
	days, left := make([]int, len(names)), budget
	for i := range names {
		days[i] = table[i][left].days
		left -= days[i]
	}
	return days
}
