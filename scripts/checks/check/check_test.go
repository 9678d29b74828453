// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/protocol"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	r := g.run("verdicts", "passes", "fails", "needs-it<fails", "and-that<needs-it", "empty", "skips", "untried",
		"half", "errs", "fatal", "teardown", "restores", "last<passes")
	for _, want := range []protocol.Event{
		{Check: "passes", Status: "passed"},
		{Check: "fails", Status: "failed", Expected: "it is right", Observed: "it is wrong"},
		{Check: "needs-it", Status: "skipped", Reason: "skipped: it needs fails, which failed"},
		{Check: "and-that", Status: "skipped", Reason: "skipped: it needs needs-it, which was skipped"},
		{Check: "empty", Status: "failed", Expected: "the title of empty", Observed: "the check ended without a verdict"},
		{Check: "skips", Status: "failed", Expected: "the title of skips", Observed: "the check ended without a verdict"},
		{Check: "untried", Status: "skipped", Reason: "skipped: there is no node"},
		{Check: "half", Status: "failed", Expected: "the title of half", Observed: "the check ended without a verdict"},
		{Check: "errs", Status: "failed", Expected: "the title of errs", Observed: "the check ended without a verdict"},
		{Check: "fatal", Status: "failed", Expected: "the title of fatal", Observed: "the check ended without a verdict"},
		{
			Check:    "teardown",
			Status:   "failed",
			Expected: "the title of teardown",
			Observed: "the check ended without a verdict",
		},
		{Check: "restores", Status: "failed", Expected: "it is right", Observed: "it is wrong"},
		{Check: "last", Status: "passed"},
	} {
		got := r.ended(want.Check)
		if (got.Seconds > 0) == (want.Status == "skipped") {
			t.Errorf("%s took %g s", want.Check, got.Seconds)
		}
		if (len(got.Evidence) > 0) != (got.Observed == "it is wrong") {
			t.Errorf("the evidence of %s is %q", want.Check, got.Evidence)
		}
		got.Seconds, got.Evidence = 0, nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("event =\n%+v\nwant\n%+v", got, want)
		}
	}
	if !slices.Equal(g.asked, []string{"POST " + protocol.StartOperator}) {
		t.Errorf("the failed check must restore what later checks need: it sent %v", g.asked)
	}
}

// TestPreventedCheckHasNoStatus checks that a machine that lacks something costs no points, because the grader ends the
// run without a grade.
func TestPreventedCheckHasNoStatus(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "passes", "prevented")
	i := slices.IndexFunc(r.events, func(e protocol.Event) bool { return e.Prevented != "" })
	if i < 0 {
		t.Fatalf("no event has Prevented set: %+v", r.events)
	}
	if got := r.events[i]; got.Check != "prevented" || got.Prevented != "there is no node" || got.Status != "" {
		t.Errorf("event = %+v", got)
	}
}

// TestFailedCauseSkipsDependents checks that a check that may name the cause of a failure runs although a check that it
// needs has failed. It gets no points for the run.
func TestFailedCauseSkipsDependents(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "fails>errs,passes", "needs-it<fails", "passes<fails", "errs<fails", "last")
	for _, want := range []protocol.Event{
		{Check: "needs-it", Status: "skipped", Reason: "skipped: it needs fails, which failed"},
		{Check: "passes", Status: "skipped", Reason: "skipped: it needs fails, which failed"},
		{Check: "errs", Status: "failed", Expected: "the title of errs", Observed: "the check ended without a verdict"},
		{Check: "last", Status: "passed"},
	} {
		got := r.ended(want.Check)
		if got.Status != want.Status || got.Reason != want.Reason || got.Observed != want.Observed ||
			got.Seconds != 0 && want.Status == "skipped" {
			t.Errorf("event =\n%+v\nwant\n%+v", got, want)
		}
	}
	got := newGrader(t).run("verdicts", "passes>needs-it", "fails", "needs-it<fails").ended("needs-it")
	if got.Status != "skipped" || got.Reason == "" {
		t.Errorf("no failed check has it as a cause: event = %+v", got)
	}
	reported := slices.ContainsFunc(r.events, func(e protocol.Event) bool { return e.Check == "passes" && e.Status == "" })
	if !reported {
		t.Errorf("no event reports that the check runs: %+v", r.events)
	}
}

// TestEachCheckBeginsAndEnds checks the order of the events. A live view needs them one by one, in the order of
// labs.yaml: first the beginning of a check, then its result.
func TestEachCheckBeginsAndEnds(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "last", "fails", "needs-it<fails", "passes")
	var got []string
	for _, event := range r.events {
		got = append(got, strings.TrimSuffix(event.Check+" "+event.Status, " "))
	}
	want := []string{"last", "last passed", "fails", "fails failed", "needs-it skipped", "passes", "passes passed"}
	if !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}

// TestFirstCheckRunsFirst checks the order of checks for a student who fixes one of them, and waits for its verdict.
// The checks that it needs run before it, and all others after it.
func TestFirstCheckRunsFirst(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.first = "last"
	var got []string
	for _, event := range g.run("verdicts", "fails", "needs-it<fails", "passes", "untried", "last<passes").events {
		if event.Status != "" {
			got = append(got, event.Check+" "+event.Status)
		}
	}
	if want := []string{
		"passes passed", "last passed", "fails failed", "needs-it skipped", "untried skipped",
	}; !slices.Equal(got, want) {
		t.Errorf("order of the checks' ends = %q, want %q", got, want)
	}
}

// TestPanicIsNotVerdict checks that a panic ends the process. The grader then finds that the check never ended, and
// reports an internal error.
func TestPanicIsNotVerdict(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("panics", "panics", "last")
	if len(r.events) != 1 || r.events[0].Check != "panics" || r.events[0].Status != "" {
		t.Errorf("events = %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "panic: a mistake of ours") {
		t.Errorf("the run ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestCheckWithoutCodeEndsRun(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "passes", "sprinkles", "last")
	if got := r.ended("passes"); len(r.events) != 2 || got.Status != "passed" {
		t.Errorf("events = %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "labs.yaml lists the check sprinkles, which has no code in 01-shop") {
		t.Errorf("the run ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if err := g.audited(operator, "update", 3); err != nil { // before the check, so it is no evidence
		t.Fatal(err)
	}
	g.stop = func() error {
		return errors.Join(g.audited("somebody", "delete", 1),
			g.audited(operator, "watch", 1), g.audited(operator, "update", 10))
	}
	if got := g.run("evidence", "earlier").ended("earlier").Evidence; len(got) != 3 ||
		!strings.HasSuffix(got[0], " update icecreams sundae-1 → 200 OK") {
		t.Errorf("evidence of a check with an earlier begin = %q", got)
	}
	r := g.run("evidence", "silent", "busy", "own", "request")
	if got := r.ended("silent").Evidence; !slices.Equal(got, []string{
		"the operator has sent no request since this check began",
	}) {
		t.Errorf("evidence of a silent operator = %q", got)
	}
	// An aggregated API server need not send requests itself. The grader knows its log.
	g.aggregated = true
	if got := g.run("evidence", "silent").ended("silent").Evidence; len(got) > 0 {
		t.Errorf("evidence of a silent server = %q", got)
	}
	g.aggregated = false
	got := r.ended("busy").Evidence
	if len(got) != 9 || got[0] != "(earlier requests: 2)" ||
		!strings.HasSuffix(got[8], " update icecreams sundae-10 → 200 OK") {
		t.Errorf("evidence of an operator with ten requests = %q", got)
	}
	// Evidence prefers the objects that are named in only one of the two sentences, or else those in both.
	for check, want := range map[string]struct {
		first, second string
		lines         int
	}{
		"one":     {"(other requests: 2)", " update icecreams sundae-2 → 200 OK", 9},
		"missing": {"(other requests: 2)", " update icecreams sundae-1 → 200 OK", 9},
		"unasked": {
			"the operator has sent no request about sundae-11 or sundae-12 since this check began", "(earlier requests: 2)", 10,
		},
	} {
		g := newGrader(t)
		g.stop = func() error {
			return errors.Join(g.audited("somebody", "create", 12), g.audited(operator, "update", 10))
		}
		got := g.run("evidence", check).ended(check).Evidence
		if len(got) != want.lines || got[0] != want.first || !strings.HasSuffix(got[1], want.second) ||
			!strings.HasSuffix(got[len(got)-1], "sundae-10 → 200 OK") {
			t.Errorf("evidence of %s = %q", check, got)
		}
	}
	if got := r.ended("own").Evidence; !slices.Equal(got, []string{"seen by me"}) {
		t.Errorf("evidence of a check that passes its own = %q", got)
	}
	failed := r.ended("request")
	if failed.Expected != "creating an icecream works" || failed.Observed != "the API server is gone" {
		t.Errorf("failure of a request of ours = %+v", failed)
	}
}

// TestUnansweredWebhookIsReported checks that the grader learns of a webhook of the submission whose failurePolicy let
// a request pass.
func TestUnansweredWebhookIsReported(t *testing.T) {
	t.Parallel()
	for webhook, during := range map[string]bool{"shop": true, "another": false} {
		g := newGrader(t)
		g.stop = func() error {
			return g.appendAudit(`{"verb":"create","objectRef":{"resource":"icecreams","name":"sundae"},"annotations":` +
				`{"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"` + webhook + `"},` +
				`"responseStatus":{"code":201}}` + "\n")
		}
		r := g.run("evidence", "silent", "busy", "own")
		for id, want := range map[string]bool{"silent": false, "busy": during, "own": false} {
			if got := r.ended(id); got.FailedOpen != want {
				t.Errorf("the webhook %s, %s: event = %+v, want FailedOpen %t", webhook, id, got, want)
			}
		}
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		does func(*grader)
		want string
	}{
		{"an operator that never stops", func(g *grader) { g.auditAlways(operator, "get") }, "failed"},
		{"an operator that only watches", func(g *grader) { g.auditAlways(operator, "watch") }, "passed"},
		{"another user that never stops", func(g *grader) { g.auditAlways("somebody", "update") }, "passed"},
		{"an operator that never stops asking the freezer", func(g *grader) {
			g.last = func() time.Time { return time.Now().Add(time.Hour) } // as in auditAlways
		}, "failed"},
		{"an operator that was at the freezer before", func(g *grader) {
			began := time.Now()
			g.last = func() time.Time { return began }
		}, "passed"},
		{"a lab without an operator", func(g *grader) { g.noOperator = true }, "passed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			test.does(g)
			if got := g.run("settle", "settle").ended("settle"); got.Status != test.want {
				t.Errorf("event = %+v", got)
			}
		})
	}
}

func TestGraderStopsAndStartsOperator(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if got := g.run("operator", "operator").ended("operator"); got.Observed != "<nil>" {
		t.Errorf("the requests to the grader failed: %s", got.Observed)
	}
	if want := []string{
		"POST /operator/stop", "POST /operator/start", "POST /operator/kill",
	}; !slices.Equal(g.asked, want) {
		t.Errorf("the grader received %q, want %q", g.asked, want)
	}
	g.stop = func() error { return errors.New("it does not end") }
	if got := g.run("operator", "operator").ended("operator"); got.Observed !=
		"asking the grader for /operator/stop: it does not end" {
		t.Errorf("after a refusal of the grader, error = %s", got.Observed)
	}
	var none check.Operator
	if err := none.Stop(t.Context()); !errors.Is(err, check.ErrNoOperator) {
		t.Errorf("Stop() in a lab without an operator: error = %v", err)
	}
}

func TestStopQuietlyWaitsForAuditLog(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.stop = func() error { return g.auditedAt(time.Now().Add(lateRequest), operator, "watch", 1) }
	if got := g.run("quietly", "quietly").ended("quietly"); got.Status != "passed" {
		t.Errorf("event = %+v", got)
	}
	g.stop = func() error { return errors.New("it does not end") }
	if got := g.run("quietly", "quietly").ended("quietly"); got.Status != "failed" ||
		!strings.Contains(got.Observed, "it does not end") {
		t.Errorf("with an operator that can't be stopped, event = %+v", got)
	}
}

func TestListAndCodeAgree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		suite string
		fails bool
		want  string
	}{
		{"agree", false, "PASS"},
		{"missing", true, "labs.yaml lists the checks [accepted columns "},
		{"unlisted", true, " sprinkles "},
	} {
		// The suite identifies the lab by the folder of the test.
		r := start(t, "../01-icecream", suiteVariable+"="+test.suite)
		if (r.err != nil) != test.fails || !strings.Contains(r.output, test.want) {
			t.Errorf("%s: the run ended with %v and printed\n%s", test.suite, r.err, r.output)
		}
	}
}
