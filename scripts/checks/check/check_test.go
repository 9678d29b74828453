// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
)

const (
	// suiteVariable makes this test binary the checks of a lab: it names the suite below that is run.
	suiteVariable = "CHECK_TEST_SUITE"
	// patience is check's: how long an operator may do nothing while something is awaited of it.
	patience = 3 * time.Second
	operator = "system:serviceaccount:operator-system:controller-manager"
)

// lateRequest is how long after the operator was stopped its last request is logged.
const lateRequest = patience / 10

type step = func(context.Context, *testing.T, *check.Check)

// suites are what the tests below run as a process of its own, as the grader does: id of the check and its steps.
var suites = map[string]check.Features{
	"verdicts": {
		"passes":   feature(passes, passes),
		"fails":    feature(fails, passes),
		"needs-it": feature(passes),
		"and-that": feature(passes),
		"empty":    features.New("nothing is assessed").Feature(),
		"skips":    feature(skips),
		"untried": feature(passes, func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Skip(t, "there is no node")
		}, fails),
		"half": feature(passes, skips),
		"prevented": feature(passes, func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Prevented(t, "there is no node")
		}),
		"errs":  feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.Error("wrong") }),
		"fatal": feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.FailNow() }),
		"teardown": features.New("x").Assess("x", check.Assess(passes)).
			Teardown(check.Teardown(func(context.Context, *check.Check) error { return errors.New("no") })).Feature(),
		"restores": features.New("x").Assess("x", check.Assess(fails)).
			Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature(),
		"last": feature(passes),
	},
	"panics": {
		"panics": feature(func(context.Context, *testing.T, *check.Check) { panic("a mistake of ours") }),
		"last":   feature(passes),
	},
	"evidence": {
		"silent": feature(fails),
		"earlier": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.BeganAt(0)
			fails(ctx, t, c)
		}),
		"busy": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx)) // the test's grader logs ten requests
			fails(ctx, t, c)
		}),
		"one": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "status.toppingsCount of sundae-2 is 3", "status.toppingsCount of sundae-2 is not set")
		}),
		"missing": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "sundae-1, sundae-3 and sundae-9 stay", "there are sundae-3 and sundae-9 (and that is all)")
		}),
		"unasked": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "sundae-12 and sundae-11 are right", "sundae-11, sundae-12: not yet")
		}),
		"own": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Fail(t, "it is right", "it is wrong", "seen by me")
		}),
		"request": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "creating an icecream", nil)
			c.OK(t, "creating an icecream", errors.New("the API server is gone"))
		}),
	},
	"eventually": {"eventually": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began := time.Now()
		c.Eventually(ctx, t, "the shop opens", never, func() (string, bool) {
			return "the shop is closed", time.Since(began) > 2*patience
		})
	})},
	"patient": {"patient": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.EventuallyWithin(ctx, t, "the shop opens", patience/2, never, func() (string, bool) { return "the shop is closed", false })
	})},
	"long": {
		"begun": feature(func(context.Context, *testing.T, *check.Check) {}),
		"long": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.EventuallyWithin(ctx, t, "the shop opens", 10*time.Minute, never, func() (string, bool) { return "the shop is closed", false })
		}),
	},
	"overcome": {"overcome": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began, wait := time.Now(), c.NewWait(patience/2, patience/2)
		for time.Since(began) < 2*patience { // the time of one that never stops is over after three times its patience
			if why := wait.Over(ctx); why != "" {
				c.Fail(t, "the shop opens", why)
			}
			c.Pause(ctx, t, patience/30)
		}
	})},
	"rest": {"rest": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.AtRest(ctx, t)
		logged, err := c.Operator.Logged(ctx)
		c.OK(t, "reading the log", err)
		c.NoErrors(ctx, t, logged, "sundae", "split")
	})},
	"causes": {"causes": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.ErrorsHaveCauses(ctx, t, 0, 0, "sundae", "split")
	})},
	"submission": {"submission": feature(asksForFiles)},
	"settle": {"settle": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		if !c.Settle(ctx, t) {
			c.Fail(t, "it settles", "it does not")
		}
	})},
	"quietly": {"quietly": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began := time.Now()
		c.StopQuietly(ctx, t)
		if took := time.Since(began); took < lateRequest {
			c.Fail(t, "the last request is waited for", fmt.Sprintf("it took %s", took))
		}
	})},
	"operator": {"operator": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		err := errors.Join(c.Operator.Stop(ctx), c.Operator.Start(ctx), c.Operator.Kill(ctx))
		c.Fail(t, "it is stopped, started and killed", fmt.Sprint(err), "none")
	})},
}

func feature(steps ...step) types.Feature {
	builder := features.New("a feature")
	for i, step := range steps {
		builder.Assess(fmt.Sprintf("step %d", i+1), check.Assess(step))
	}
	return builder.Feature()
}

func passes(context.Context, *testing.T, *check.Check) {}

func fails(_ context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	c.Fail(t, "it is right", "it is wrong")
}

func skips(_ context.Context, t *testing.T, _ *check.Check) {
	t.Helper()
	t.Skip("not today")
}

func never() <-chan struct{} { return nil }

// TestSuite is not a test itself. It runs the checks of a lab while one of the tests below plays the grader.
func TestSuite(t *testing.T) {
	name := os.Getenv(suiteVariable)
	switch name {
	case "":
		t.Skip("the other tests run it")
	case "agree", "missing", "unlisted":
		check.Run(t, ofLabOne(t, name), check.Options{})
	default:
		if features, ok := suites[name]; ok {
			check.Run(t, features, check.Options{})
			return
		}
		check.Run(t, scenarios[name].features(), scenarios[name].options())
	}
}

// ofLabOne are checks named as those of lab 01, or nearly.
func ofLabOne(t *testing.T, how string) check.Features {
	t.Helper()
	list, err := manifest.Load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all := check.Features{}
	for _, listed := range list.Labs[0].Checks {
		all[listed.ID] = feature(passes)
	}
	switch how {
	case "missing":
		delete(all, "columns")
	case "unlisted":
		all["sprinkles"] = feature(passes)
	}
	return all
}

func TestWhatCountsAsPassed(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	r := g.run("verdicts", "passes", "fails", "needs-it<fails", "and-that<needs-it", "empty", "skips", "untried", "half", "errs", "fatal",
		"teardown", "restores", "last<passes")
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
		{Check: "teardown", Status: "failed", Expected: "the title of teardown", Observed: "the check ended without a verdict"},
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
			t.Errorf("the event is\n%+v\nand must be\n%+v", got, want)
		}
	}
	if !slices.Equal(g.asked, []string{"POST " + protocol.StartOperator}) {
		t.Errorf("the check that failed must restore what later ones need; it asked for %v", g.asked)
	}
}

// A machine that lacks something costs no points, because the grader ends the run.
func TestAPreventedCheckHasNoStatus(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "passes", "prevented")
	i := slices.IndexFunc(r.events, func(e protocol.Event) bool { return e.Prevented != "" })
	if i < 0 {
		t.Fatalf("no event says so: %+v", r.events)
	}
	if got := r.events[i]; got.Check != "prevented" || got.Prevented != "there is no node" || got.Status != "" {
		t.Errorf("the event is %+v", got)
	}
}

// A check that may name the cause of a failure runs although a check that it needs has failed. It gets no points for
// that.
func TestACauseIsLookedFor(t *testing.T) {
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
			t.Errorf("the event is\n%+v\nand must be\n%+v", got, want)
		}
	}
	got := newGrader(t).run("verdicts", "passes>needs-it", "fails", "needs-it<fails").ended("needs-it")
	if got.Status != "skipped" || got.Reason == "" {
		t.Errorf("it is the cause of nothing that failed, and ended so: %+v", got)
	}
	told := slices.ContainsFunc(r.events, func(e protocol.Event) bool { return e.Check == "passes" && e.Status == "" })
	if !told {
		t.Errorf("a check that runs is told of, and the events are %+v", r.events)
	}
}

// A live view needs the events one by one, in the order of labs.yaml: first that a check begins, then how it ended.
func TestEachCheckBeginsAndEnds(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "last", "fails", "needs-it<fails", "passes")
	var got []string
	for _, event := range r.events {
		got = append(got, strings.TrimSuffix(event.Check+" "+event.Status, " "))
	}
	want := []string{"last", "last passed", "fails", "fails failed", "needs-it skipped", "passes", "passes passed"}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %q and must be %q", got, want)
	}
}

// A student who fixes a check waits for its verdict. The checks that it needs run before it, and all others after it.
func TestACheckRunsFirst(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.first = "last"
	var got []string
	for _, event := range g.run("verdicts", "fails", "needs-it<fails", "passes", "untried", "last<passes").events {
		if event.Status != "" {
			got = append(got, event.Check+" "+event.Status)
		}
	}
	if want := []string{"passes passed", "last passed", "fails failed", "needs-it skipped", "untried skipped"}; !slices.Equal(got, want) {
		t.Errorf("the checks end in the order %q, want %q", got, want)
	}
}

// A panic ends the process. The grader then finds that the check never ended, and reports an internal error.
func TestAPanicIsNoVerdict(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("panics", "panics", "last")
	if len(r.events) != 1 || r.events[0].Check != "panics" || r.events[0].Status != "" {
		t.Errorf("the events are %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "panic: a mistake of ours") {
		t.Errorf("it ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestACheckWithoutCodeEndsTheRun(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "passes", "sprinkles", "last")
	if got := r.ended("passes"); len(r.events) != 2 || got.Status != "passed" {
		t.Errorf("the events are %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "labs.yaml lists the check sprinkles, which has no code in 01-shop") {
		t.Errorf("it ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if err := g.audited(operator, "update", 3); err != nil { // before the check: no evidence
		t.Fatal(err)
	}
	g.stop = func() error {
		return errors.Join(g.audited("somebody", "delete", 1), g.audited(operator, "watch", 1), g.audited(operator, "update", 10))
	}
	if got := g.run("evidence", "earlier").ended("earlier").Evidence; len(got) != 3 ||
		!strings.HasSuffix(got[0], " update icecreams sundae-1 → 200 OK") {
		t.Errorf("of a check that has begun before: %q", got)
	}
	r := g.run("evidence", "silent", "busy", "own", "request")
	if got := r.ended("silent").Evidence; !slices.Equal(got, []string{"the operator has sent no request since this check began"}) {
		t.Errorf("of a silent operator: %q", got)
	}
	// A server that is asked need not ask; the grader knows its log.
	g.aggregated = true
	if got := g.run("evidence", "silent").ended("silent").Evidence; len(got) > 0 {
		t.Errorf("of a silent server: %q", got)
	}
	g.aggregated = false
	got := r.ended("busy").Evidence
	if len(got) != 9 || got[0] != "(earlier requests: 2)" || !strings.HasSuffix(got[8], " update icecreams sundae-10 → 200 OK") {
		t.Errorf("of an operator with ten requests: %q", got)
	}
	// About whom it complains: who is named in one sentence only, or else in both.
	for check, want := range map[string]struct {
		first, second string
		lines         int
	}{
		"one":     {"(other requests: 2)", " update icecreams sundae-2 → 200 OK", 9},
		"missing": {"(other requests: 2)", " update icecreams sundae-1 → 200 OK", 9},
		"unasked": {"the operator has sent no request about sundae-11 or sundae-12 since this check began", "(earlier requests: 2)", 10},
	} {
		g := newGrader(t)
		g.stop = func() error {
			return errors.Join(g.audited("somebody", "create", 12), g.audited(operator, "update", 10))
		}
		got := g.run("evidence", check).ended(check).Evidence
		if len(got) != want.lines || got[0] != want.first || !strings.HasSuffix(got[1], want.second) ||
			!strings.HasSuffix(got[len(got)-1], "sundae-10 → 200 OK") {
			t.Errorf("of %s: %q", check, got)
		}
	}
	if got := r.ended("own").Evidence; !slices.Equal(got, []string{"seen by me"}) {
		t.Errorf("of a check that has its own: %q", got)
	}
	failed := r.ended("request")
	if failed.Expected != "creating an icecream works" || failed.Observed != "the API server is gone" {
		t.Errorf("of a request of ours: %+v", failed)
	}
}

func TestEventuallyGivesUpASilentOperator(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	// What others do, and the operator's standing watches, are no sign of life.
	g.auditEvery(patience/6, "somebody", "update")
	g.auditEvery(patience/6, operator, "watch")
	got := g.run("eventually", "eventually").ended("eventually")
	if got.Status != "failed" || got.Expected != "the shop opens" ||
		got.Observed != "the shop is closed (and the operator has been silent for 3s)" {
		t.Errorf("it ended so: %+v", got)
	}
	if got.Seconds < patience.Seconds() || got.Seconds > 2*patience.Seconds() {
		t.Errorf("it waited for %g s", got.Seconds)
	}
}

func TestEventuallyWaitsForAnOperatorThatWorks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		works func(*grader)
	}{
		{"at the API server", func(g *grader) { g.auditEvery(patience/6, operator, "update") }},
		// Requests to the freezer, and those that a fault let never arrive, are in no audit log.
		{"at the freezer", func(g *grader) { g.last = time.Now }},
		{"after a failure that passes", func(g *grader) {
			g.log = []faults.Entry{request(time.Now().Add(time.Second), "update", http.StatusConflict)}
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
			if got := g.run("eventually", "eventually").ended("eventually"); got.Status != "passed" || got.Seconds < 2*patience.Seconds() {
				t.Errorf("it ended so: %+v", got)
			}
		})
	}
}

// request is an entry in the log of what the operator asked the API server for.
func request(at time.Time, verb string, code int) faults.Entry {
	return faults.Entry{
		Time: at, Service: faults.API, Verb: verb, Resource: "icecreams", Name: "sundae", Code: code,
		Write: verb != "list", Number: 1,
	}
}

// An operator that called the freezer some time ago gets the full time, counted from that call.
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
		t.Errorf("it ended so: %+v", got)
	}
	// Half of its patience is over when the operator falls silent, unless the process took long to start.
	if ended := time.Since(began); ended < busy+patience/2 {
		t.Errorf("the operator was busy for %s, and was given up %s after it began", busy, ended)
	}
}

// A student who has started only the first step need not wait for the other steps.
func TestNothingIsWaitedForLongInAStepThatIsNotBegun(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.notStarted = []int{2}
	run := g.run("long", "begun", "long")
	if got := run.ended("begun"); got.Status != "passed" {
		t.Errorf("the check of a step that is begun ended so: %+v", got)
	}
	got := run.ended("long")
	if got.Status != "failed" || got.Observed != "the shop is closed (after 3s, and this step is not begun)" || got.Seconds > 60 ||
		len(got.Evidence) == 0 || got.Evidence[0] != "each `TODO(lab): 2.` is as it was, so nothing was waited for longer than 3s" {
		t.Errorf("it ended so: %+v", got)
	}
}

// An operator that has just recovered from a failure may act after the last look. The wait must not be over at that
// moment.
func TestAWaitGoesOnAfterAFailureWasOvercome(t *testing.T) {
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
			g.log = []faults.Entry{request(overcome.Add(-time.Millisecond), "update", http.StatusConflict), request(overcome, "list", http.StatusOK)}
			g.auditEvery(patience/6, operator, "update")
			if got := g.run("overcome", "overcome").ended("overcome"); got.Status != test.want {
				t.Errorf("it ended so: %+v", got)
			}
		})
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
		{"somebody else who never stops", func(g *grader) { g.auditAlways("somebody", "update") }, "passed"},
		{"an operator that never stops asking the freezer", func(g *grader) {
			g.last = func() time.Time { return time.Now().Add(time.Hour) } // as in auditAlways
		}, "failed"},
		{"an operator that was at the freezer before", func(g *grader) {
			began := time.Now()
			g.last = func() time.Time { return began }
		}, "passed"},
		{"a lab without an operator", func(g *grader) { g.alone = true }, "passed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			test.does(g)
			if got := g.run("settle", "settle").ended("settle"); got.Status != test.want {
				t.Errorf("it ended so: %+v", got)
			}
		})
	}
}

func TestTheOperatorIsStoppedAndStartedByTheGrader(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if got := g.run("operator", "operator").ended("operator"); got.Observed != "<nil>" {
		t.Errorf("it was asked for, and failed: %s", got.Observed)
	}
	if want := []string{"POST /operator/stop", "POST /operator/start", "POST /operator/kill"}; !slices.Equal(g.asked, want) {
		t.Errorf("the grader was asked for %q, not %q", g.asked, want)
	}
	g.stop = func() error { return errors.New("it does not end") }
	if got := g.run("operator", "operator").ended("operator"); got.Observed != "asking the grader for /operator/stop: it does not end" {
		t.Errorf("the grader refused, and the error is %s", got.Observed)
	}
	var none check.Operator
	if err := none.Stop(t.Context()); !errors.Is(err, check.ErrNoOperator) {
		t.Errorf("a lab without an operator can't stop it: %v", err)
	}
}

func TestWhoIsStoppedQuietlyHasBeenLogged(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.stop = func() error { return g.auditedAt(time.Now().Add(lateRequest), operator, "watch", 1) }
	if got := g.run("quietly", "quietly").ended("quietly"); got.Status != "passed" {
		t.Errorf("it ended so: %+v", got)
	}
	g.stop = func() error { return errors.New("it does not end") }
	if got := g.run("quietly", "quietly").ended("quietly"); got.Status != "failed" || !strings.Contains(got.Observed, "it does not end") {
		t.Errorf("the operator can't be stopped, and it ended so: %+v", got)
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
		// It is found by the folder in which the test stands.
		r := start(t, "../01-icecream", suiteVariable+"="+test.suite)
		if (r.err != nil) != test.fails || !strings.Contains(r.output, test.want) {
			t.Errorf("%s: it ended with %v and printed\n%s", test.suite, r.err, r.output)
		}
	}
}
