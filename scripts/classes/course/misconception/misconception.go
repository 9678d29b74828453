// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package misconception finds the probable misconceptions of a student from the checks that failed. Certification knows
// which checks each mutant of a lab fails, and what they observed (see package mutant). The mutant whose failures are
// most like those of a submission names its misconception. This is a guess, and package page presents it as one. The
// package does not grade, and reads no submission.
package misconception

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/mutant"
)

// Bound is the smallest likeness to report: at least half of the failures, by weight, must agree.
const Bound = 0.5

// otherReason is what a check counts if it fails in both for different reasons. A wrong solution that only fails the
// same checks stays below Bound.
const otherReason = 0.4

// Known is a misconception that certification knows.
type Known struct {
	// Lab is the lab's name, such as 02-reconciler, and Name is the mutant's name.
	Lab, Name string
	// Misconception describes in one or a few sentences what the author of such code believes.
	Misconception string
	// Fails are the checks that fail, each with its observation.
	Fails map[string]*regexp.Regexp
	// Lecture is the heading to read again: file#anchor, from the root of the repository. Empty: unknown.
	Lecture string
}

const (
	// SkeletonName is the Name of the Known that is the lab's skeleton.
	SkeletonName = "skeleton"
	// NothingDone is the Misconception of the skeleton.
	NothingDone = "Nothing of the lab has been done yet."
)

// From reads the misconceptions of a lab from its mutants. lecture returns the heading that explains a check,
// file#anchor, or an empty string. It may be nil. A mutant that fails no check, because it crashes or because only the
// torture finds it, is left out. The skeleton is among the misconceptions, since some students hand it in.
func From(lab string, list *mutant.List, lecture func(check string) string) ([]Known, error) {
	var all []Known
	add := func(name, misconception string, e mutant.Expectation) error {
		if len(e.Fails) == 0 {
			return nil
		}
		k := Known{Lab: lab, Name: name, Misconception: misconception, Fails: map[string]*regexp.Regexp{}}
		for check, pattern := range e.Fails {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				return fmt.Errorf("the wrong solution %s of %s, the expression for %s: %w", name, lab, check, err)
			}
			k.Fails[check] = compiled
		}
		if lecture != nil {
			k.Lecture = lecture(cmp.Or(e.Explained, slices.Min(slices.Collect(maps.Keys(e.Fails)))))
		}
		all = append(all, k)
		return nil
	}
	if err := add(SkeletonName, NothingDone, list.Skeleton); err != nil {
		return nil, err
	}
	for _, m := range list.Mutants {
		if err := add(m.Name, m.Misconception, m.Expectation); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Failure is a failed check. A skipped check is not a failure.
type Failure struct {
	// Check is the check's ID.
	Check string
	// Observed is the observation in the report. Empty: unknown. Then only the check itself is compared.
	Observed string
}

// Found is a misconception that explains failures.
type Found struct {
	Known
	// Likeness is the share, by weight, of the checks that failed for the same reason in both, among those that failed in
	// at least one. It is between Bound and 1.
	Likeness float64
	// Exact is true if the same checks failed.
	Exact bool
}

// Match returns the misconceptions that are nearest to the failures, in the order of known. If some fail exactly the
// same checks, it considers only these. Of those it returns the ones with the largest likeness. It returns several if
// they can't be distinguished, and none if all are below Bound or nothing failed. A check that few misconceptions fail
// weighs more than one that many fail. known are the misconceptions of one lab.
func Match(failed []Failure, known []Known) []Found {
	return newMatcher(known).match(failed)
}

type matcher struct {
	known []Known
	// held is the number of misconceptions that fail each check.
	held map[string]int
}

func newMatcher(known []Known) matcher {
	m := matcher{known: known, held: map[string]int{}}
	for _, k := range known {
		for check := range k.Fails {
			m.held[check]++
		}
	}
	return m
}

// weight returns the inverse document frequency of a check.
func (m matcher) weight(check string) float64 {
	return math.Log(1 + float64(len(m.known)+1)/float64(m.held[check]+1))
}

func (m matcher) match(failed []Failure) (best []Found) {
	observed := map[string]string{}
	for _, f := range failed {
		observed[f.Check] = f.Observed
	}
	if len(observed) == 0 {
		return nil
	}
	for _, k := range m.known {
		f := Found{Known: k, Exact: len(k.Fails) == len(observed)}
		// The sum must not depend on the order of a map: otherwise equal sets would differ in the last bit.
		both, all := 0.0, 0.0
		for _, check := range slices.Sorted(maps.Keys(union(k.Fails, observed))) {
			w := m.weight(check)
			all += w
			pattern, fails := k.Fails[check]
			saw, failed := observed[check]
			switch {
			case !fails || !failed:
				f.Exact = false
			case saw == "" || pattern == nil || pattern.MatchString(saw):
				both += w
			default:
				both += w * otherReason
			}
		}
		f.Likeness = both / all
		if f.Likeness < Bound {
			continue
		}
		if len(best) > 0 {
			switch order(f, best[0]) {
			case -1:
				continue
			case 1:
				best = nil
			}
		}
		best = append(best, f)
	}
	return best
}

func union(fails map[string]*regexp.Regexp, observed map[string]string) map[string]bool {
	all := map[string]bool{}
	for check := range fails {
		all[check] = true
	}
	for check := range observed {
		all[check] = true
	}
	return all
}

// order returns 1 if a is nearer than b, and -1 if it is farther.
func order(a, b Found) int {
	if a.Exact != b.Exact {
		if a.Exact {
			return 1
		}
		return -1
	}
	const same = 1e-9
	if math.Abs(a.Likeness-b.Likeness) < same {
		return 0
	}
	return cmp.Compare(a.Likeness, b.Likeness)
}

// Student has the failures of one student in the lab.
type Student struct {
	Name   string
	Failed []Failure
}

// Group is a group of students whose failures the same misconceptions explain.
type Group struct {
	// Known are the misconceptions that can't be distinguished, at least one.
	Known []Known
	// Students are the students' names, in alphabetical order.
	Students []string
	// Exact is true if each of the students failed exactly the checks that the misconceptions fail.
	Exact bool
}

// Groups returns the misconceptions of a class, the most frequent first. Students without a failure, or whose failures
// resemble no misconception, are in no group.
func Groups(students []Student, known []Known) []Group {
	m := newMatcher(known)
	groups := map[string]*Group{}
	for _, s := range students {
		found := m.match(s.Failed)
		if len(found) == 0 {
			continue
		}
		var names []string
		g := Group{Exact: true}
		for _, f := range found {
			names = append(names, f.Name)
			g.Known = append(g.Known, f.Known)
		}
		key := strings.Join(names, "\n")
		if groups[key] == nil {
			groups[key] = &g
		}
		groups[key].Students = append(groups[key].Students, s.Name)
		groups[key].Exact = groups[key].Exact && found[0].Exact
	}
	var all []Group
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[key].Students)
		all = append(all, *groups[key])
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(len(b.Students), len(a.Students)) })
	return all
}
