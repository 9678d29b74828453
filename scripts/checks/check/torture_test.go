// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// scenario is a suite whose scenario is tortured, or has a bad day.
type scenario struct {
	play check.Scenario
	// unstated means that the number of writes is not given.
	unstated bool
	cleanUp  func() error
	scenes   []check.Scene
}

// cuts returns a scene with its own fault and an end.
func cuts(end check.Scenario) check.Scene {
	return check.Scene{Name: "cuts", Play: func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.Arm(ctx, t, faults.Schedule{Faults: []faults.Fault{{Kind: faults.Cut, Class: faults.Write}}})
		end(ctx, t, c)
	}}
}

// scenarioWrites and scenarioReads are the numbers of requests of the scenarios below, so their random faults are among
// these.
const scenarioWrites, scenarioReads = 6, 3

var scenarios = map[string]scenario{
	"survives":         {play: passes},
	"fails":            {play: fails},
	"errs":             {play: func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.Error("wrong") }},
	"ends":             {play: func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.FailNow() }},
	"skips":            {play: skips},
	"panicky":          {play: func(context.Context, *testing.T, *check.Check) { panic("a mistake of ours") }},
	"unstated":         {play: passes, unstated: true},
	"none":             {},
	"scenes":           {play: passes, scenes: []check.Scene{cuts(passes), {Name: "nothing goes wrong", Play: passes}}},
	"uncleaned":        {play: passes, cleanUp: func() error { return errors.New("the shop is locked") }},
	"falls-to-a-scene": {play: passes, scenes: []check.Scene{cuts(fails)}},
	"falls-to-kill-after": {play: func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		failAt(ctx, t, c, func(e faults.Entry) bool { return e.Fault == faults.KillAfter && e.Number == 2 })
	}},
	"falls-to-stale": {play: func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		failAt(ctx, t, c, func(e faults.Entry) bool { return e.Fault == faults.Stale })
	}},
}

// failAt fails if the operator met a fault for which falls returns true since the schedule began.
func failAt(ctx context.Context, t *testing.T, c *check.Check, falls func(faults.Entry) bool) {
	t.Helper()
	log, err := c.Faults.Log(ctx)
	c.OK(t, "reading the log", err)
	for _, entry := range slices.Backward(log) {
		if entry.Service == faults.Operator {
			return // each schedule begins with a start: see plays
		}
		if falls(entry) {
			c.Fail(t, "it does not matter", "it matters: "+string(entry.Fault))
		}
	}
}

func (s scenario) options() check.Options {
	options := check.Options{Scenario: s.play, Writes: scenarioWrites, Reads: scenarioReads, Scenes: s.scenes}
	if s.unstated {
		options.Writes = 0
	}
	var suite *check.Suite
	options.Prepare = func(ctx context.Context, opened *check.Suite) (context.Context, error) {
		suite = opened
		return ctx, nil
	}
	options.CleanUp = func(ctx context.Context) error {
		if s.cleanUp != nil {
			return s.cleanUp()
		}
		return suite.Operator.Start(ctx) // the tests' grader records it
	}
	return options
}

func (s scenario) features() check.Features {
	return check.Features{"bad-day": check.BadDay(s.play), "next": feature(fails)}
}

// plays returns an operator that sends the given number of writes after a start, whatever faults it meets.
func plays(writes int) func(faults.Schedule) []faults.Entry {
	return func(schedule faults.Schedule) []faults.Entry {
		entries := []faults.Entry{{Service: faults.Operator, Verb: "started"}}
		meets := func(class faults.Class, n int) faults.Kind {
			for _, fault := range schedule.Faults {
				if fault.Class == class && fault.At == n {
					return fault.Kind
				}
			}
			return ""
		}
		for n := range scenarioReads {
			entries = append(entries, faults.Entry{
				Service: faults.API, Verb: "list", Resource: "icecreams", Code: 200, Number: n + 1, Fault: meets(faults.Read, n+1),
			})
		}
		for n := range writes {
			entries = append(entries, faults.Entry{
				Service: faults.API, Verb: "update", Resource: "icecreams", Name: "sundae", Code: 200, Write: true, Number: n + 1,
				Fault: meets(faults.Write, n+1),
			})
		}
		return entries
	}
}

// torture tortures a suite whose operator sends two writes on a good day.
func (g *grader) torture(suite string, random int) run {
	g.t.Helper()
	g.torturedWith = &random
	if g.onArm == nil {
		g.onArm = plays(2)
	}
	return g.run(suite)
}

// progress returns the events about the trials in words: "2 of 5 [kill-before write 1] passed".
func (r run) progress() []string {
	var progress []string
	for _, event := range r.events {
		trial := event.Trial
		line := fmt.Sprintf("%d of %d [%s]", trial.Number, trial.Of, trial.Schedule)
		switch {
		case trial.Final:
			line += " final"
		case trial.Passed:
			line += " passed"
		case trial.Ended:
			line += " failed"
		}
		progress = append(progress, line)
	}
	return progress
}

func TestTortureTriesEachCrashThenRandomSchedules(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.seed = 7
	r := g.torture("survives", 2)
	schedules := []string{
		"no faults", "kill-before write 1", "kill-after write 1", "kill-before write 2", "kill-after write 2",
	}
	for n := range 2 {
		schedules = append(schedules, faults.Random(7, n, scenarioWrites, scenarioReads).String())
	}
	var progress, asked []string
	for i, schedule := range schedules {
		total := len(schedules)
		if i == 0 {
			total = 1 // the good day determines the number
		}
		progress = append(progress, fmt.Sprintf("%d of %d [%s]", i+1, total, schedule),
			fmt.Sprintf("%d of %d [%s] passed", i+1, total, schedule))
		asked = append(asked, "POST "+protocol.Arm, "POST "+protocol.Disarm, "POST "+protocol.StartOperator)
	}
	if r.err != nil || !slices.Equal(r.progress(), progress) {
		t.Errorf("the run ended with %v, and reported\n%s\nwant\n%s",
			r.err, strings.Join(r.progress(), "\n"), strings.Join(progress, "\n"))
	}
	if !slices.Equal(g.armed, schedules) || !slices.Equal(g.asked, asked) {
		t.Errorf("after each schedule, faults must be disarmed and the cluster cleaned up: armed %q, requests %q",
			g.armed, g.asked)
	}
}

func TestTortureEndsAtFirstFailedCrash(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	r := g.torture("falls-to-kill-after", 5)
	progress := r.progress()
	want := []string{
		"5 of 10 [kill-after write 2]", "5 of 10 [kill-after write 2] failed", "5 of 10 [kill-after write 2] final",
	}
	if len(progress) != 8+3 || !slices.Equal(progress[8:], want) {
		t.Fatalf("progress() =\n%s", strings.Join(progress, "\n"))
	}
	last := r.events[len(r.events)-1]
	if last.Expected != "it does not matter" || last.Observed != "it matters: kill-after" || len(last.Evidence) == 0 ||
		last.Evidence[0] != "what went wrong: kill-after write 2" ||
		!strings.Contains(last.Evidence[len(last.Evidence)-1], "update icecreams sundae → 200 OK (write 2, kill-after)") {
		t.Errorf("last event = %+v", last)
	}
	// The timeline must begin with this schedule, and not earlier.
	if timeline := last.Trial.Timeline; len(timeline) != 1+scenarioReads+2 ||
		timeline[0].Service != faults.Operator || timeline[len(timeline)-1].Fault != faults.KillAfter {
		t.Errorf("timeline = %+v", timeline)
	}
	if g.asked[len(g.asked)-1] != "POST "+protocol.StartOperator {
		t.Errorf("no clean-up after the last trial: requests %q", g.asked)
	}
}

func TestTortureLooksForTheShortestSchedule(t *testing.T) {
	t.Parallel()
	const random = 30
	// Look for a seed whose first schedule with a stale watch has many other faults.
	stale := func(f faults.Fault) bool { return f.Kind == faults.Stale }
	var failing faults.Schedule
	seed, before := uint32(0), 0
	for len(failing.Faults) < 4 {
		seed++
		for before = range random {
			if failing = faults.Random(seed, before, scenarioWrites, scenarioReads); slices.ContainsFunc(failing.Faults, stale) {
				break
			}
		}
	}
	g := newGrader(t)
	g.seed, g.onArm = seed, plays(scenarioWrites)
	r := g.torture("falls-to-stale", random)
	last := r.events[len(r.events)-1]
	final := last.Trial
	if !final.Final || final.Number != 0 || final.Schedule.Seed != seed || len(final.Schedule.Faults) != 1 ||
		final.Schedule.Faults[0].Kind != faults.Stale || !slices.Contains(failing.Faults, final.Schedule.Faults[0]) {
		t.Errorf("[%s] with seed %d was shrunk to [%s] with seed %d", failing, seed, final.Schedule, final.Schedule.Seed)
	}
	if last.Observed != "it matters: stale" || last.Evidence[0] != "what went wrong: "+final.Schedule.String() ||
		len(final.Timeline) != 1+scenarioReads+scenarioWrites {
		t.Errorf("the last event belongs to another trial: %+v", last)
	}
	// The operator survived the sweep, and the random schedules before this one.
	if want := 1 + 2*scenarioWrites + before; g.armed[want] != failing.String() {
		t.Errorf("failed under [%s], want number %d, [%s]", g.armed[want], want+1, failing)
	}
}

func TestTortureWithoutFaultsFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ suite, expected, observed string }{
		{"fails", "it is right", "it is wrong"},
		{"errs", "the scenario comes to an end", "it ended without a verdict"},
		{"ends", "the scenario comes to an end", "it ended without a verdict"},
		{"skips", "the scenario comes to an end", "it ended without a verdict"},
	} {
		g := newGrader(t)
		r := g.torture(test.suite, 5)
		want := []string{"1 of 1 [no faults]", "1 of 1 [no faults] failed", "1 of 1 [no faults] final"}
		if !slices.Equal(r.progress(), want) || len(g.armed) != 1 {
			t.Errorf("%s: progress() = %q, armed %q", test.suite, r.progress(), g.armed)
			continue
		}
		if last := r.events[2]; last.Expected != test.expected || last.Observed != test.observed {
			t.Errorf("%s: last event = %+v", test.suite, last)
		}
	}
}

// TestTortureErrors checks that an internal error is not a verdict. The grader detects that the trials did not end.
func TestTortureErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		suite, message string
		progress       []string
		change         func(*grader)
	}{
		{"none", "01-shop has no scenario", nil, nil},
		{"unstated", "does not say how many writes it takes", nil, nil},
		{"panicky", "panic: a mistake of ours", []string{"1 of 1 [no faults]"}, nil},
		{"uncleaned", "cleaning up after the schedule [no faults]: the shop is locked", []string{"1 of 1 [no faults]"}, nil},
		{
			"survives", "the operator wrote nothing",
			[]string{"1 of 1 [no faults]", "1 of 1 [no faults] passed"},
			func(g *grader) { g.onArm = plays(0) },
		},
	} {
		g := newGrader(t)
		if test.change != nil {
			test.change(g)
		}
		r := g.torture(test.suite, 1)
		if r.err == nil || !strings.Contains(r.output, test.message) || !slices.Equal(r.progress(), test.progress) {
			t.Errorf("%s: the run ended with %v, reported %q, and printed\n%s", test.suite, r.err, r.progress(), r.output)
		}
	}
}

// TestTortureLimitsTimeline covers a log that does not fit into one event.
func TestTortureLimitsTimeline(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.onArm = plays(faults.LogLimit)
	r := g.torture("fails", 0)
	if len(r.events) != 3 {
		t.Fatalf("progress() = %q", r.progress())
	}
	timeline := r.events[2].Trial.Timeline
	if len(timeline) != report.MaxTimeline || timeline[len(timeline)-1].Number != faults.LogLimit {
		t.Errorf("the timeline has %d entries", len(timeline))
	}
}

func TestEvidenceUnderFaults(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.seed = 24
	g.onArm = plays(5)
	g.log = []faults.Entry{{ID: 1, Service: faults.API, Verb: "get", Name: "before-all-this", Code: 200}}
	r := g.run("fails", "bad-day", "next")
	schedule := faults.Mild(24, 12, 6).String()
	got := r.ended("bad-day")
	if got.Status != "failed" || got.Observed != "it is wrong" || len(got.Evidence) != 2+8 {
		t.Fatalf("event = %+v", got)
	}
	if got.Evidence[0] != "what went wrong: "+schedule || got.Evidence[1] != "(other requests: 1)" ||
		!strings.Contains(got.Evidence[5], "update icecreams sundae → 200 OK (write 1, lost-answer)") {
		t.Errorf("evidence = %q", got.Evidence)
	}
	if !slices.Equal(g.armed, []string{schedule}) || !slices.Contains(g.asked, "POST "+protocol.Disarm) {
		t.Errorf("armed %q, requests %q", g.armed, g.asked)
	}
	if next := r.ended("next"); strings.Contains(strings.Join(next.Evidence, "\n"), "what went wrong") {
		t.Errorf("after the bad day, the evidence of the next check = %q", next.Evidence)
	}
	if got := g.run("survives", "bad-day").ended("bad-day"); got.Status != "passed" {
		t.Errorf("with an operator that recovers, event = %+v", got)
	}
}

func TestTorturePlaysScenesBeforeSweep(t *testing.T) {
	t.Parallel()
	without := newGrader(t).torture("falls-to-a-scene", 0).progress()
	if !strings.HasSuffix(without[len(without)-1], "passed") || len(without) != 2*5 {
		t.Errorf("scenes were not requested: progress() =\n%s", strings.Join(without, "\n"))
	}
	for suite, want := range map[string][]string{
		"scenes": {
			"2 of 7 [no faults]", "2 of 7 [cut each write] passed", "3 of 7 [no faults]", "3 of 7 [no faults] passed",
			"4 of 7 [kill-before write 1]",
		},
		"falls-to-a-scene": {
			"2 of 6 [no faults]", "2 of 6 [cut each write] failed", "2 of 6 [cut each write] final",
		},
	} {
		g := newGrader(t)
		g.scenes = true
		progress := g.torture(suite, 0).progress()
		if len(progress) < 2+len(want) || !slices.Equal(progress[2:2+len(want)], want) {
			t.Errorf("%s: progress() without faults =\n%s\nwant\n%s",
				suite, strings.Join(progress, "\n"), strings.Join(want, "\n"))
		}
	}
}
