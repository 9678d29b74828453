// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"net/http"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/faults"
)

func TestEventuallyGivesUpASilentOperator(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	// Requests of other users, and the operator's running watches, are no sign of activity.
	g.auditEvery(patience/6, "somebody", "update")
	g.auditEvery(patience/6, operator, "watch")
	got := g.run("eventually", "eventually").ended("eventually")
	if got.Status != "failed" || got.Expected != "the shop opens" ||
		got.Observed != "the shop is closed (and the operator has been silent for 3s)" {
		t.Errorf("event = %+v", got)
	}
	if got.Seconds < patience.Seconds() || got.Seconds > 2*patience.Seconds() {
		t.Errorf("the check waited for %g s", got.Seconds)
	}
}

func TestEventuallyWaitsForAnOperatorThatWorks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		works func(*grader)
	}{
		{"at the API server", func(g *grader) { g.auditEvery(patience/6, operator, "update") }},
		// Requests to the freezer, and requests that a fault dropped, are in no audit log.
		{"at the freezer", func(g *grader) { g.last = time.Now }},
		{"after a failure that passes", func(g *grader) {
			g.log = []faults.Entry{request(time.Now().Add(patience), "update", http.StatusConflict)}
		}},
		{"as slowly as before", func(g *grader) {
			g.log = []faults.Entry{
				request(time.Now().Add(-2*time.Second), "list", http.StatusOK),
				request(time.Now().Add(-time.Second), "update", http.StatusOK),
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			test.works(g)
			if got := g.run("eventually", "eventually").ended("eventually"); got.Status != "passed" ||
				got.Seconds < 2*patience.Seconds() {
				t.Errorf("event = %+v", got)
			}
		})
	}
}

// request returns a log entry of a request of the operator to the API server.
func request(at time.Time, verb string, code int) faults.Entry {
	return faults.Entry{
		Time: at, Service: faults.API, Verb: verb, Resource: "icecreams", Name: "sundae", Code: code,
		Write: verb != "list", Number: 1,
	}
}

// TestEventuallyWithinCountsFromTheLastSign checks that an operator that called the freezer some time ago gets the full
// time, counted from that call.
func TestEventuallyWithinCountsFromTheLastSign(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	began, busy := time.Now(), patience
	g.last = func() time.Time {
		if now := time.Now(); now.Before(began.Add(busy)) {
			return now
		}
		return began.Add(busy)
	}
	got := g.run("patient", "patient").ended("patient")
	if got.Status != "failed" || got.Observed != "the shop is closed (and the operator has been silent for 1.5s)" {
		t.Errorf("event = %+v", got)
	}
	// Half of the patience is over when the operator falls silent, unless the process took long to start.
	if ended := time.Since(began); ended < busy+patience/2 {
		t.Errorf("the operator was busy for %s, and the wait ended %s after its begin", busy, ended)
	}
}

// TestEventuallyIsShortInUnstartedStep checks that a student who has started only the first step need not wait for the
// other steps.
func TestEventuallyIsShortInUnstartedStep(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.notStarted = []int{2}
	run := g.run("long", "begun", "long")
	if got := run.ended("begun"); got.Status != "passed" {
		t.Errorf("event of a check whose step has begun = %+v", got)
	}
	got := run.ended("long")
	if got.Status != "failed" ||
		got.Observed != "the shop is closed (after 3s, and this step is not begun)" || got.Seconds > 60 ||
		len(got.Evidence) == 0 ||
		got.Evidence[0] != "each `TODO(lab): 2.` is as it was, so nothing was waited for longer than 3s" {
		t.Errorf("event = %+v", got)
	}
}

// TestEventuallyContinuesAfterRecovery checks that the wait does not end when an operator has just recovered from a
// failure. The operator may act after the last look.
func TestEventuallyContinuesAfterRecovery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		overcome time.Duration // after the test began
		want     string
	}{
		{"just now", 2 * patience, "passed"},
		{"long ago", patience / 3, "failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			overcome := time.Now().Add(test.overcome)
			g.log = []faults.Entry{
				request(overcome.Add(-time.Millisecond), "update", http.StatusConflict),
				request(overcome, "list", http.StatusOK),
			}
			g.auditEvery(patience/6, operator, "update")
			if got := g.run("overcome", "overcome").ended("overcome"); got.Status != test.want {
				t.Errorf("event = %+v", got)
			}
		})
	}
}
