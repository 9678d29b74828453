// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"

	"lva.io/operators/scripts/classes/course/misconception"
)

// feedback holds what the template of a student's page shows.
type feedback struct {
	frame
	Name, Total, LectureBase string
	Works                    []feedbackWork
}

type feedbackWork struct {
	*Work
	Title  string
	Number int
	// HasGrade is false if the run decided nothing about the submission.
	HasGrade bool
	Failed   []feedbackFailure
	// Hidden is the number of failed checks that are hidden from students.
	Hidden, Skipped int
	Believed        []Misconception
}

type feedbackFailure struct {
	Failure
	Title, Lecture string
	Points         int
}

// fewSentences is the largest number of misconceptions among which a student may be asked to choose.
const fewSentences = 3

// Feedback writes the page that one student may see: their own points, the checks that failed and what to read again.
// It has no other name of the class, no seed of a run, no hidden check, nothing of Alike and no reason for a manual
// review. It includes the instructor's Comment unchanged. A name that is not in the class is an error.
func Feedback(w io.Writer, c *Class, student string) error {
	i := slices.IndexFunc(c.Students, func(s Student) bool { return s.Name == student })
	if i < 0 {
		return fmt.Errorf("writing the feedback of %q: the class has no such student", student)
	}
	s := &c.Students[i]
	f := feedback{
		frame: newFrame(cmp.Or(c.Title, "Class")), Name: s.Name, Total: points(s.Total), LectureBase: c.LectureBase,
	}
	for j := range c.Labs {
		lab := &c.Labs[j]
		one := feedbackWork{Title: lab.Title, Number: lab.Number}
		work := s.work(lab.Name)
		if work == nil {
			f.Works = append(f.Works, one)
			continue
		}
		shown := *work
		shown.Max = cmp.Or(work.Max, lab.full())
		shown.Reason = withoutSeeds(work.Reason)
		one.Work, one.HasGrade = &shown, work.hasGrade()
		hidden := func(id string) bool {
			check := lab.check(id)
			return check != nil && check.Hidden
		}
		for _, failure := range work.Failed {
			if hidden(failure.Check) {
				one.Hidden++
				continue
			}
			failed := feedbackFailure{
				Failure: Failure{failure.Check, withoutSeeds(failure.Expected), withoutSeeds(failure.Observed)},
				Title:   failure.Check,
			}
			if check := lab.check(failure.Check); check != nil {
				failed.Title, failed.Lecture, failed.Points = check.Title, check.Lecture, check.Points
			}
			one.Failed = append(one.Failed, failed)
		}
		for _, id := range work.Skipped {
			if !hidden(id) {
				one.Skipped++
			}
		}
		// A misconception that hidden checks have found would reveal them. Students know themselves whether they have done
		// nothing.
		for _, m := range c.Misconceptions {
			few := len(m.Sentences) <= fewSentences && !slices.Contains(m.Sentences, misconception.NothingDone)
			if one.Hidden == 0 && m.Lab == lab.Name && few && slices.Contains(m.Students, s.Name) {
				one.Believed = append(one.Believed, Misconception{Lab: m.Lab, Sentences: m.Sentences, Lectures: m.Lectures})
			}
		}
		f.Works = append(f.Works, one)
	}
	return execute(w, "feedback.html", f, fmt.Sprintf("the feedback of %q", student))
}

// seed matches a seed as reports and commands show it.
var seed = regexp.MustCompile(`(?i)(\bseeds?\b[ :=]*)(?:0x[0-9a-f]+|[0-9]+)`)

// withoutSeeds replaces seeds: a student who knows the seed could repeat the faults of a hidden run.
func withoutSeeds(text string) string { return seed.ReplaceAllString(text, "${1}"+notShown) }
