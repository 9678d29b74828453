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

// history is the list of requests of the operator and the checks in a run, by time.
type history []moment

// moment is a request of the operator or a write of a check, or the operator's start.
type moment struct {
	faults.Entry
	// faulty is true while faults are armed, which can slow everything down.
	faulty bool
}

// history reads the requests so far. It leaves out requests that an idle operator also sends: watches, Leases, Events.
func (s *Suite) history(entries []faults.Entry) history {
	var all history
	for _, entry := range entries {
		if entry.Number > 0 || entry.Service == faults.Operator {
			all = append(all, moment{Entry: entry, faulty: s.Faults.armedAt(entry.Time)})
		}
	}
	for _, e := range s.Audit.Since(0, audit.Match(audit.Writes).And(func(e audit.Event) bool {
		return e.UserAgent == userAgent
	})) {
		all = append(all, moment{
			Entry:  faults.Entry{Time: e.Time, Service: faults.Check, Write: true, Code: e.Code},
			faulty: s.Faults.armedAt(e.Time),
		})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.Time.Compare(b.Time) })
	return all
}

// slowness returns how slow the operator is, judged by its silence. In a lab with Pods it returns 0: the operator waits
// for them, and is silent without being slow.
func (s *Suite) slowness(past history) time.Duration {
	if s.Lab.Node {
		return 0
	}
	return past.slowness()
}

// slowness returns the longest time for which the operator was silent although it had something to do, that is, before
// one of its own successful writes. The first write after a start does not count: filling the cache takes time, and
// only a starting operator does that.
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

// end returns when a request was answered.
func (m moment) end() time.Time {
	if answered := m.Answered(); !answered.IsZero() {
		return answered
	}
	return m.Time
}

// mostFailures is how often in a row the same request may fail and still count as a transient failure.
const mostFailures = 6

// setback returns two times. setback is when the operator last met a transient failure for which no retry has succeeded
// yet, and overcome is when a retry last succeeded. The zero time means never. A request that fails again and again is
// no setback, because a later retry does not help.
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

// restarting reports whether a fault has killed the operator, and it has not been restarted yet. On a busy machine a
// restart takes time.
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

// starting reports whether the operator was started, and has sent no request to the API server since then. On a busy
// machine its process begins late. Requests for a Lease and its Events do not count.
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

// passes reports whether a request failed in a way that may succeed next time: a conflict, no answer, or a failure of
// the service.
func (m moment) passes() bool {
	switch {
	case m.Answered().IsZero():
		return true
	case m.Code == http.StatusConflict:
		return m.Service == faults.API // other services have other rules: the freezer refuses a used id forever
	case m.Code == http.StatusTooManyRequests, m.Code >= http.StatusInternalServerError:
		return true
	}
	return m.Code == http.StatusUnprocessableEntity && m.Verb == "patch" // a failed test of a JSON patch is a conflict
}
