// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// history is what the operator and the checks have done in a run, by time.
type history []moment

// moment is a request of the operator or a write of a check, or the operator's start.
type moment struct {
	faults.Entry
	// faulty is true while faults are armed, which can make everybody slow.
	faulty bool
}

// history reads what has happened so far. What goes on while the operator has nothing to do is left out: watches,
// Leases, Events.
func (s *Suite) history(entries []faults.Entry) history {
	var all history
	for _, entry := range entries {
		if entry.Number > 0 || entry.Service == faults.Operator {
			all = append(all, moment{Entry: entry, faulty: s.Faults.armedAt(entry.Time)})
		}
	}
	for _, e := range s.Audit.Since(0, audit.Match(audit.Writes).And(func(e audit.Event) bool { return e.UserAgent == userAgent })) {
		all = append(all, moment{
			Entry:  faults.Entry{Time: e.Time, Service: faults.Check, Write: true, Code: e.Code},
			faulty: s.Faults.armedAt(e.Time),
		})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.Time.Compare(b.Time) })
	return all
}

// slowness is that of the operator, as far as its silence tells: where Pods run, it waits for them, and is silent
// without being slow.
func (s *Suite) slowness(of history) time.Duration {
	if s.Lab.Node {
		return 0
	}
	return of.slowness()
}

// slowness is the longest time for which the operator was silent although it had something to do: before a write of its
// own that succeeded. The first after its start does not count: filling its cache takes time, and no operator at work
// does that.
func (h history) slowness() (longest time.Duration) {
	starting := false
	for i, m := range h {
		if m.Service == faults.Operator {
			starting = true
		}
		if i == 0 || !m.Write || m.Service == faults.Check || m.Code == 0 || m.Code >= http.StatusMultipleChoices {
			continue
		}
		if !starting && !m.faulty && !h[i-1].faulty {
			longest = max(longest, m.Time.Sub(h[i-1].end()))
		}
		starting = false
	}
	return longest
}

// end is when a request was answered.
func (m moment) end() time.Time {
	if answered := m.Answered(); !answered.IsZero() {
		return answered
	}
	return m.Time
}

// mostFailures is how often in a row the same may fail and yet be a failure that passes.
const mostFailures = 6

// setback is when the operator last met a failure that passes after some time, and did not try the same again with
// success; and overcome is when it last did. The zero time: it has not. What fails again and again is no setback:
// coming back later does not help.
func (h history) setback(after time.Time) (setback, overcome time.Time) {
	type failure struct {
		last  time.Time
		count int
	}
	open := map[string]failure{}
	for _, m := range h {
		if m.Service == faults.Check || m.Service == faults.Operator || m.Time.Before(after) {
			continue
		}
		resource, _, _ := strings.Cut(m.Resource, "/")
		about := m.Service + " " + resource + " " + m.Name
		if m.passes() {
			open[about] = failure{m.end(), open[about].count + 1}
		} else if _, failed := open[about]; failed {
			overcome = latest(overcome, m.end())
			delete(open, about)
		}
	}
	for _, failed := range open {
		if failed.count <= mostFailures {
			setback = latest(setback, failed.last)
		}
	}
	return setback, overcome
}

// restarting reports whether a fault has the operator killed, and it has not been started again. On a busy machine that
// takes its time.
func (h history) restarting() bool {
	killed := false
	for _, m := range h {
		switch {
		case m.Fault.Kills():
			killed = true
		case m.Service == faults.Operator && m.Verb != "killed":
			killed = false
		}
	}
	return killed
}

// starting reports whether the operator was started, and has asked the API server for nothing since: on a busy machine
// its process begins late. It may have asked for a Lease, or written an Event of that.
func starting(entries []faults.Entry) bool {
	starting := false
	for _, e := range entries {
		switch {
		case e.Service == faults.Operator:
			starting = e.Verb == "started"
		case e.Service == faults.API && e.Resource != "leases" && e.Resource != "events":
			starting = false
		}
	}
	return starting
}

// passes reports whether a request failed in a way that may be different next time: a conflict, no answer, a failure of
// the service.
func (m moment) passes() bool {
	switch {
	case m.Answered().IsZero():
		return true
	case m.Code == http.StatusConflict:
		return m.Service == faults.API // other services have other rules: the freezer refuses a used id for ever
	case m.Code == http.StatusTooManyRequests, m.Code >= http.StatusInternalServerError:
		return true
	}
	return m.Code == http.StatusUnprocessableEntity && m.Verb == "patch" // a test of a JSON patch that fails is a conflict
}
