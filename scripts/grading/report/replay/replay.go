// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package replay shows a check of a graded run step by step, and asks the reader what the operator does next. It
// reads the timeline of a report. The report's web page shows the same steps.
package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// Nothing is the answer if the operator sends no request for a while.
const Nothing = "nothing for a while"

const (
	// pause is the shortest time without a request that is a step of its own, in seconds.
	pause = 0.3
	// maxChoices is how many answers a question offers at most.
	maxChoices = 4
	// maxRepeats is how often a question asks what follows the same request. More would bore the reader.
	maxRepeats = 2
)

// Step is one event of a check, or the same request several times in a row.
type Step struct {
	// Moments are the indices of its moments in the report's timeline. A pause has none.
	Moments []int
	// At is when it began, in seconds after the start of the check, and Seconds is how long a pause took.
	At, Seconds float64
	// Request is the operator's request without the object's name, such as "patch icecreams", or Nothing for a pause. It
	// is empty for events of the operator and of objects.
	Request string
	// Choices are the possible answers to the question what the operator does next, in alphabetical order, including
	// Request. If it is nil, the step is shown without a question.
	Choices []string
}

// What returns the step in words: a request includes the object's name, in which UIDs and hashes are shortened.
func (s Step) What(r *report.Report) string {
	if len(s.Moments) == 0 {
		return fmt.Sprintf("no request for %.1f s", s.Seconds)
	}
	what := opaque.ReplaceAllString(r.Timeline[s.Moments[0]].What, "$1$3…")
	if more := len(s.Moments) - 1; more > 0 {
		what += fmt.Sprintf(", and %s like it", english.Plural(more, "request", ""))
	}
	return what
}

// Of returns the steps of the checks that can be replayed, by the indices of the checks in the report. These checks
// have at least one question.
func Of(r *report.Report) map[int][]Step {
	all := map[int][]Step{}
	requests := offered(r)
	for i := range r.Checks {
		if steps := steps(r, &r.Checks[i], requests); questions(steps) > 0 {
			all[i] = steps
		}
	}
	return all
}

// First returns the index of the check to replay first: the one to fix first, or, if that can't be replayed, the one
// with the most questions. It returns -1 if there is none.
func First(r *report.Report, replayable map[int][]Step) int {
	first, explained := -1, r.Explained()
	for _, i := range slices.Sorted(maps.Keys(replayable)) {
		if &r.Checks[i] == explained {
			return i
		}
		if first < 0 || questions(replayable[i]) > questions(replayable[first]) {
			first = i
		}
	}
	return first
}

// questions counts the steps that have a question.
func questions(steps []Step) (n int) {
	for _, step := range steps {
		if step.Choices != nil {
			n++
		}
	}
	return n
}

// Choose finds the check to replay: the one with this ID, or, if the ID is empty, the one that First returns.
func Choose(r *report.Report, id string) (*report.Check, error) {
	replayable := Of(r)
	i := First(r, replayable)
	if id == "" && i < 0 {
		return nil, errors.New("no check of this report can be replayed: " +
			"the operator made no requests to choose from in any of them; docs/runs has reports that can be replayed")
	}
	if id != "" {
		if i = slices.IndexFunc(r.Checks, func(c report.Check) bool { return c.ID == id }); i < 0 {
			return nil, fmt.Errorf("the report has no check %q: it has %s", id, names(r, func(int) bool { return true }))
		}
		if replayable[i] == nil {
			others := names(r, func(i int) bool { return replayable[i] != nil })
			return nil, fmt.Errorf("the check %s can't be replayed: the operator made no requests in it to choose from; "+
				"choose from %s", id, cmp.Or(others, "another report"))
		}
	}
	return &r.Checks[i], nil
}

// names lists the checks that wanted selects by their indices.
func names(r *report.Report, wanted func(int) bool) string {
	var all []string
	for i := range r.Checks {
		if wanted(i) {
			all = append(all, r.Checks[i].ID)
		}
	}
	return strings.Join(all, ", ")
}

// Steps returns what happened during a check, in order.
func Steps(r *report.Report, check *report.Check) []Step { return steps(r, check, offered(r)) }

// steps are the Steps of a check, with choices from the requests of the whole run.
func steps(r *report.Report, check *report.Check, requests []string) []Step {
	// The submission's own tests do not use the running operator.
	if check.At == 0 && check.Seconds == 0 || check.ID == manifest.OwnTestsID {
		return nil
	}
	var steps []Step
	end := check.At // of the last event
	for i, moment := range r.Timeline {
		if moment.At < check.At || moment.At > check.At+check.Seconds || background(moment) {
			continue
		}
		request := requestOf(moment)
		if gap := moment.At - end; request != "" && gap >= pause && len(steps) > 0 {
			steps = append(steps, Step{At: end - check.At, Seconds: gap, Request: Nothing})
		}
		end = max(end, moment.At)
		if request != "" && !isWatch(request) { // other requests are sent during a watch
			end = max(end, moment.At+moment.Seconds)
		}
		if last := len(steps) - 1; last >= 0 && request != "" && steps[last].Request == request &&
			sameAnswer(r.Timeline[steps[last].Moments[0]], moment) {
			steps[last].Moments = append(steps[last].Moments, i)
			continue
		}
		steps = append(steps, Step{Moments: []int{i}, At: moment.At - check.At, Request: request})
	}
	ask(steps, requests)
	return steps
}

// sameAnswer reports whether two equal requests ended the same way, without a fault.
func sameAnswer(a, b report.Moment) bool { return a.Fault == "" && b.Fault == "" && a.Code == b.Code }

// ask gives the steps their choices. It skips requests that only fill the cache, and does not ask too often what
// follows the same request.
func ask(steps []Step, all []string) {
	asked := map[[2]string]int{}
	before := ""
	for i := range steps {
		step := &steps[i]
		transition := [2]string{before, step.Request}
		before = step.Request
		if step.Request == "" || reads(step.Request) || asked[transition] == maxRepeats {
			continue
		}
		asked[transition]++
		step.Choices = choices(step.Request, all)
	}
}

// choices returns the answer and the most frequent other requests, or nil if there are too few to choose from.
func choices(answer string, all []string) []string {
	picked := []string{answer}
	for _, other := range all {
		if len(picked) < maxChoices && other != answer {
			picked = append(picked, other)
		}
	}
	if len(picked) < 3 {
		return nil
	}
	slices.Sort(picked)
	return picked
}

// offered returns Nothing and the requests of the whole run that questions use, the most frequent first.
func offered(r *report.Report) []string {
	count := map[string]int{}
	for _, moment := range r.Timeline {
		if request := requestOf(moment); request != "" && !background(moment) && !reads(request) {
			count[request]++
		}
	}
	var all []string
	for request := range count {
		all = append(all, request)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	return append([]string{Nothing}, all...)
}

// requestOf returns the operator's request without the object. It is empty for a moment that is no request.
func requestOf(moment report.Moment) string {
	if moment.Service == report.ServiceOperator || moment.Service == report.ServiceObjects {
		return ""
	}
	words := strings.Fields(moment.What)
	return strings.Join(words[:min(2, len(words))], " ")
}

// background reports whether a request serves the operator itself: discovery, its lease, and reviews of tokens and
// access.
func background(moment report.Moment) bool {
	return requestOf(moment) != "" && backgroundRequest.MatchString(moment.What)
}

var backgroundRequest = regexp.MustCompile(`^\S+ (/|leases\b|subjectaccessreviews\b|tokenreviews\b)`)

// reads reports whether a request only fills the cache.
func reads(request string) bool { return isWatch(request) || strings.HasPrefix(request, "list ") }

func isWatch(request string) bool { return strings.HasPrefix(request, "watch ") }

// opaque matches names that no reader can remember: UIDs and hashes.
var opaque = regexp.MustCompile(`\b([0-9a-f]{6})[0-9a-f]{2}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b([0-9a-f]{6})[0-9a-f]{10,}\b`)
