// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"errors"
	"net/http"
	"regexp"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/protocol"
)

func TestBusyOperatorIsEvidence(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]bool{0.1: false, 0.8: true} {
		g := newGrader(t)
		began := time.Now()
		g.usage = func() protocol.Usage { return protocol.Usage{Known: true, CPU: time.Since(began).Seconds() * share} }
		got := g.run("patient", "patient").ended("patient").Evidence
		found := len(got) > 0 &&
			regexp.MustCompile(`^the operator worked for 1\.\d+s of the 1\.\d+s that this check took: is there a loop`).
				MatchString(got[0])
		if found != want {
			t.Errorf("evidence for an operator that works for %g of the time = %q", share, got)
		}
	}
}

// returned builds an error that Reconcile has returned for each object as often as counts specifies.
func returned(text string, counts map[string]int) operatorlog.Error {
	e := operatorlog.Error{Text: text, Objects: map[string]operatorlog.Returned{}}
	for object, count := range counts {
		e.Count += count
		e.Objects[object] = operatorlog.Returned{Count: count, Text: text + " " + object}
	}
	return e
}

func TestAtRest(t *testing.T) {
	t.Parallel()
	// using builds the usage of a process whose threads run this often, and for this many seconds, in each second.
	using := func(runs int, cpu float64) func() protocol.Usage {
		began := time.Now()
		return func() protocol.Usage {
			seconds := time.Since(began).Seconds()
			return protocol.Usage{Known: true, Runs: int(seconds * float64(runs)), CPU: seconds * cpu}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*grader)
		// observed is an expression that the observation must match. Empty: the operator is at rest.
		observed string
	}{
		{"idle", func(*grader) {}, ""},
		{"wakes up now and then", func(g *grader) { g.usage = using(20, 0.01) }, ""},
		{"unknown usage", func(g *grader) {
			g.usage = func() protocol.Usage { return protocol.Usage{Runs: int(time.Now().UnixNano())} }
		}, ""},
		{"watches continue", func(g *grader) { g.auditEvery(50*time.Millisecond, operator, "watch") }, ""},
		{
			"sends five requests a second", func(g *grader) { g.auditEvery(200*time.Millisecond, operator, "list") },
			`^nothing changes, and it keeps sending requests: \d+ within 600ms$`,
		},
		{
			"sends two requests a second", func(g *grader) { g.auditEvery(500*time.Millisecond, operator, "get") },
			`^nothing changes, and it keeps sending requests: \d+ within 600ms$`,
		},
		{"sends a request now and then", func(g *grader) { g.auditEvery(3*time.Second, operator, "list") }, ""},
		{
			"reads its cache all the time", func(g *grader) { g.usage = using(1000, 0.02) },
			`^nothing changes, and it is busy without sending a request: within 600ms its threads ran \d{3} times`,
		},
		{
			"reads its cache without a pause", func(g *grader) { g.usage = using(2, 0.9) },
			`^nothing changes, and it is busy without .* for ([5-9]\d\dms|[1-9][.0-9]*s) in all$`,
		},
		{"one error", func(g *grader) {
			g.errors = []operatorlog.Error{returned("no cone for", map[string]int{"sundae": 1})}
		}, ""},
		{"errors for other objects", func(g *grader) {
			g.errors = []operatorlog.Error{returned("no cone for", map[string]int{"sorbet": 9})}
		}, ""},
		{"the same error again", func(g *grader) {
			g.errors = []operatorlog.Error{returned("no cone for", map[string]int{"sundae": 2, "sorbet": 9})}
		}, `^it returned the same error 2 times, for sundae: no cone for sundae$`},
		{"the same error for several objects", func(g *grader) {
			g.errors = []operatorlog.Error{returned("no cone for", map[string]int{"sundae": 1, "split": 1})}
		}, `^it returned the same error 2 times, for sundae and split: no cone for s`},
		{"a cache that is behind", func(g *grader) {
			conflict := apierrors.NewConflict(schema.GroupResource{Group: "demo.lva.io", Resource: "icecreams"},
				"sundae", errors.New("it has changed")).Error()
			g.errors = []operatorlog.Error{
				returned(conflict, map[string]int{"sundae": 3, "split": 1}),
				{Text: conflict, Count: 6},
			}
		}, ""},
		{"endless conflicts", func(g *grader) {
			g.errors = []operatorlog.Error{returned("Operation cannot be fulfilled on icecreams", map[string]int{"sundae": 7})}
		}, `^it returned the same error 7 times, for sundae: Operation cannot be`},
		{"a few errors for unknown objects", func(g *grader) {
			g.errors = []operatorlog.Error{{Text: "no cone", Count: 4}}
		}, ""},
		{"many errors for unknown objects", func(g *grader) {
			g.errors = []operatorlog.Error{{Text: "no cone", Count: 5}}
		}, `^it returned the same error 5 times, for sundae and split: no cone$`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			test.change(g)
			got := g.run("rest", "rest").ended("rest")
			if test.observed == "" {
				if got.Status != "passed" || got.Seconds > 5 {
					t.Errorf("the operator is at rest: event = %+v", got)
				}
				return
			}
			if got.Status != "failed" || !regexp.MustCompile(test.observed).MatchString(got.Observed) || len(got.Evidence) == 0 {
				t.Errorf("the operator is not at rest: event = %+v", got)
			}
		})
	}
}

func TestErrorsWithoutCause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		errors []operatorlog.Error
		code   int    // of the answer to the operator's request
		want   string // the observation; empty: the check passes
	}{
		{"no errors", nil, http.StatusOK, ""},
		{
			"for each",
			[]operatorlog.Error{returned("no cone for", map[string]int{"sundae": 1, "split": 1})},
			http.StatusOK,
			"the API server refused nothing, and it returned an error for each of sundae and split: no cone for split",
		},
		{
			"for each another",
			[]operatorlog.Error{
				returned("no cone for", map[string]int{"sundae": 1}),
				returned("no cone for", map[string]int{"split": 1}),
			},
			http.StatusOK,
			"the API server refused nothing, and it returned an error for each of sundae and split: no cone for split",
		},
		{"for one of them", []operatorlog.Error{returned("no cone for", map[string]int{"sundae": 3})}, http.StatusOK, ""},
		{
			"for each, and something was refused",
			[]operatorlog.Error{returned("no cone for", map[string]int{"sundae": 1, "split": 1})},
			http.StatusConflict, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			g.errors = test.errors
			if err := g.answeredAt(time.Now(), operator, "update", test.code, 1); err != nil {
				t.Fatal(err)
			}
			got := g.run("causes", "causes").ended("causes")
			if got.Observed != test.want || (got.Status == "passed") != (test.want == "") {
				t.Errorf("event = %+v", got)
			}
		})
	}
}
