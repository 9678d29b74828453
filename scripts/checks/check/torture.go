// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// Scenario is the story of a lab, which must end well regardless of the injected failures. It waits generously (see
// Check.EventuallyWithin), because operators are restarted, asked to retry after a second, and back off.
type Scenario func(context.Context, *testing.T, *Check)

// BadDay is a check that plays the scenario while the run's seed injects conflicts, refusals, delays and lost watches.
// Operators are not killed on a bad day. Dedicated checks and the torture do that. The lab may run steps of its own
// first, which need no seed.
func BadDay(scenario Scenario, before ...types.StepFunc) types.Feature {
	// Roughly the requests of a scenario: faults that are placed after its end do not happen.
	const writes, reads = 12, 6
	feature := features.New("on a bad day")
	for _, step := range before {
		feature = feature.Assess("at first", step)
	}
	return feature.
		Assess("all ends well", Assess(func(ctx context.Context, t *testing.T, c *Check) {
			t.Helper()
			c.arm(ctx, t, faults.Mild(c.Seed, writes, reads))
			scenario(ctx, t, c)
		})).
		Teardown(Teardown(func(ctx context.Context, c *Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// arm injects faults for the rest of the check. Its evidence then shows the faults, and when they happened.
func (c *Check) arm(ctx context.Context, t *testing.T, schedule faults.Schedule) {
	t.Helper()
	log, err := c.Faults.since(ctx, c.armedAt)
	c.OK(t, "reading the log of requests", err)
	if len(log) > 0 {
		c.armedAt = log[len(log)-1].ID
	}
	c.armed = c.Audit.Now()
	c.OK(t, "arming the faults", c.Faults.Arm(ctx, schedule))
	c.schedule, c.sent = &schedule, 0
}

// Arm injects faults for the rest of a scene. It replaces the armed schedule.
func (c *Check) Arm(ctx context.Context, t *testing.T, schedule faults.Schedule) {
	t.Helper()
	c.arm(ctx, t, schedule)
}

// faultLog returns the operator's requests since the faults were armed, the faults that these met, and the check's own
// changes. Without the changes, it would be unknown what the operator reacts to. Reading a long log takes time on a
// busy machine.
func (c *Check) faultLog() []faults.Entry {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log, err := c.Faults.since(ctx, c.armedAt)
	if err != nil {
		return nil
	}
	for _, e := range c.Audit.Since(c.armed, audit.Match(audit.Writes).And(func(e audit.Event) bool {
		return e.UserAgent == userAgent
	})) {
		log = append(log, faults.Entry{
			Time: e.Time, Service: faults.Check, Verb: e.Verb, Resource: strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/"),
			Namespace: e.Namespace, Name: e.Name, Code: e.Code,
		})
	}
	slices.SortStableFunc(log, func(a, b faults.Entry) int { return a.Time.Compare(b.Time) })
	return log
}

// tortureLab plays the scenario on a good day, then the lab's scenes if they are asked for, then the scenario with a
// crash at each of its writes, then under random schedules, until one of them fails. Then it looks for the shortest
// schedule that makes it fail.
func (s *Suite) tortureLab(ctx context.Context, t *testing.T, options Options, random int) {
	t.Helper()
	if options.Scenario == nil || options.Writes+options.Requests == 0 {
		t.Fatalf("%s has no scenario, or does not say how many writes it takes", s.Lab.Name)
	}
	sweep := &sweep{Suite: s, options: options, total: 1}
	good := sweep.try(ctx, t, 1, faults.Schedule{})
	if !good.Passed {
		sweep.conclude(t, good)
		return
	}
	schedules := s.schedules(good, options, random)
	if len(schedules) == random {
		t.Fatalf("the scenario of %s ended well, and the operator wrote nothing: there is nothing to sweep", s.Lab.Name)
	}
	scenes := options.Scenes
	if !s.scenes {
		scenes = nil
	}
	sweep.total += len(scenes) + len(schedules)
	for i, scene := range scenes {
		if failed := sweep.play(ctx, t, 2+i, scene, faults.Schedule{}); !failed.Passed {
			sweep.conclude(t, failed)
			return
		}
	}
	for i, schedule := range schedules {
		failed := sweep.try(ctx, t, 2+len(scenes)+i, schedule)
		if failed.Passed {
			continue
		}
		faults.Shrink(schedule, func(shorter faults.Schedule) bool {
			again := sweep.try(ctx, t, 0, shorter)
			if !again.Passed {
				failed = again
			}
			return !again.Passed
		})
		sweep.conclude(t, failed)
		return
	}
}

// schedules returns the schedules to play after the good day: all single crashes, then the random ones.
func (s *Suite) schedules(good trial, options Options, random int) (schedules []faults.Schedule) {
	if options.Requests > 0 {
		schedules = faults.SweepStorage(lastOf(faults.Change, good.entries), options.Requests)
		for n := range random {
			schedules = append(schedules, faults.RandomStorage(s.Seed, n, options.Requests))
		}
		return schedules
	}
	schedules = faults.Sweep(lastOf(faults.Write, good.entries))
	for n := range random {
		schedules = append(schedules, faults.Random(s.Seed, n, options.Writes, options.Reads))
	}
	return schedules
}

// lastOf returns how many requests or changes of a class a trial had, counting only those that faults can affect.
func lastOf(class faults.Class, entries []faults.Entry) (number int) {
	for _, entry := range entries {
		if entry.Class() == class {
			number = max(number, entry.Number)
		}
	}
	return number
}

// Schedule returns the schedule of faults during the check. It has no faults if none are injected.
func (c *Check) Schedule() faults.Schedule {
	if c.schedule == nil {
		return faults.Schedule{}
	}
	return *c.schedule
}

// Sending sends a write of the scenario itself to a submission that is an API server. If the schedule says so, the
// server is killed some time after the write is sent, or right after it was answered, and restarted.
func (c *Check) Sending(ctx context.Context, t *testing.T, send func()) {
	t.Helper()
	c.sent++
	for _, fault := range c.Schedule().Faults {
		if fault.Class != faults.Request || fault.At != c.sent {
			continue
		}
		killed := make(chan error, 1)
		kill := func() { killed <- c.Operator.Kill(ctx) }
		if fault.Kind == faults.KillBefore {
			time.AfterFunc(fault.For.Duration, kill)
			send()
		} else {
			send()
			kill()
		}
		c.OK(t, "killing the server", <-killed)
		c.OK(t, "starting the server", c.Operator.Start(ctx))
		return
	}
	send()
}

// sweep is a torture in progress.
type sweep struct {
	*Suite
	options Options
	total   int
}

// trial is the scenario, played once.
type trial struct {
	protocol.Trial
	failure Failure
	entries []faults.Entry
}

// try plays the scenario under a schedule.
func (s *sweep) try(ctx context.Context, t *testing.T, number int, schedule faults.Schedule) trial {
	t.Helper()
	return s.play(ctx, t, number, Scene{Name: schedule.String(), Play: s.options.Scenario}, schedule)
}

// play plays a scene under a schedule, and reports to the grader.
func (s *sweep) play(ctx context.Context, t *testing.T, number int, scene Scene, schedule faults.Schedule) trial {
	t.Helper()
	result := trial{Trial: protocol.Trial{Number: number, Of: s.total, Schedule: schedule}}
	s.report(t, protocol.Event{Trial: &result.Trial})
	check := &Check{Suite: s.Suite, ID: "torture", began: s.Audit.Now()}
	started := time.Now()
	finished := false
	passed := t.Run(scene.Name, func(t *testing.T) {
		check.arm(ctx, t, schedule)
		scene.Play(ctx, t, check)
		finished = true
	})
	result.entries = check.faultLog()
	if check.schedule != nil {
		result.Schedule = *check.schedule
	}
	err := s.Faults.Disarm(ctx)
	if s.options.CleanUp != nil {
		err = errors.Join(err, s.options.CleanUp(ctx))
	}
	if err != nil {
		t.Fatalf("cleaning up after the schedule [%s]: %v", schedule, err)
	}
	if passed && finished && check.failure == nil {
		check.failure = s.bypassed(check.began)
	}
	result.Ended, result.Passed = true, passed && finished && check.failure == nil
	if !result.Passed {
		if check.failure == nil {
			check.failure = &Failure{Expected: "the scenario comes to an end", Observed: "it ended without a verdict"}
		}
		result.failure = *check.failure
	}
	s.report(t, protocol.Event{Seconds: time.Since(started).Seconds(), Trial: &result.Trial})
	return result
}

// conclude reports the failed trial to the grader as the result.
func (s *sweep) conclude(t *testing.T, failed trial) {
	t.Helper()
	// Keep the newest entries: an operator in an endless loop has a very long log.
	failed.Final, failed.Timeline = true, failed.entries[max(0, len(failed.entries)-report.MaxTimeline):]
	names := s.objects()
	for i, entry := range failed.Timeline {
		failed.Timeline[i], _ = names.named(entry)
	}
	s.report(t, protocol.Event{
		Expected: failed.failure.Expected,
		Observed: failed.failure.Observed,
		Evidence: failed.failure.Evidence,
		Trial:    &failed.Trial,
	})
}
