// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"time"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

const (
	// tortureLimit is the time for the trial without faults and all single crashes. trialLimit is added for each random
	// schedule, which takes a second or two, and longer on a busy machine or with an operator that backs off.
	tortureLimit = 15 * time.Minute
	trialLimit   = 15 * time.Second
)

// RandomSchedules is how many random schedules a sweep has, by default.
const RandomSchedules = 20

// Trials is the result of a torture: a lab's scenario, run with a crash at each write and under random schedules.
type Trials struct {
	// Run is the run around the trials. It has no checks. The trials count only if its Outcome is graded.
	Run report.Report `json:"run"`
	// Tried is how many of the Of trials were run, including the one without faults.
	Tried int `json:"tried"`
	Of    int `json:"of"`
	// Failure is nil if all trials that were run passed.
	Failure *Failure `json:"failure,omitempty"`
}

// Failure is the shortest schedule that was found to fail.
type Failure struct {
	Schedule faults.Schedule `json:"schedule"`
	Expected string          `json:"expected"`
	Observed string          `json:"observed"`
	Evidence []string        `json:"evidence"`
	// Problems are the panics and errors of Reconcile in the operator's log, a sentence each.
	Problems []string `json:"troubles,omitempty"`
	// Timeline has the operator's requests, and what happened to the operator, from the start of the schedule.
	Timeline []faults.Entry `json:"timeline"`
}

// Survived reports whether every schedule was run and none failed.
func (t *Trials) Survived() bool {
	return t.Run.Outcome == report.Graded && t.Failure == nil && t.Of > 0 && t.Tried == t.Of
}

// torture holds the trials while they run.
type torture struct {
	Trials
	random  int
	current protocol.Trial
	view    func(protocol.Trial)
	// logged is the size of the operator's log when the current trial began. problems are the errors that it then logged
	// in the last trial that failed.
	logged   int64
	problems []string
}

// Torture runs the lab's scenario under faults, with all single crashes and the given number of random schedules,
// until one fails. It computes no grade. view is called for each trial when it begins and when it has ended.
func Torture(ctx context.Context, options Options, random int, view func(protocol.Trial)) *Trials {
	trials := &torture{random: random, view: view}
	options.torture = trials
	trials.Run = *Run(ctx, options)
	trials.Run.Checks, trials.Run.Score, trials.Run.MaxScore = []report.Check{}, 0, 0
	trials.conclude()
	return &trials.Trials
}

// limit is the time limit for all trials of a sweep.
func (t *torture) limit() time.Duration {
	return tortureLimit + time.Duration(t.random)*trialLimit
}

// conclude adapts the result to a run that ended before its trials.
func (t *torture) conclude() {
	switch t.Run.Outcome {
	case report.Error:
		t.Failure = nil // the operator did not cause it
	case report.TimedOut:
		// The timeout is not evidence against the schedule that was running.
		t.Run.Reason += fmt.Sprintf("; %d of %d schedules were played", t.Tried, t.Of)
	case report.Crashed, report.Flooded:
		// If the operator ends by itself, the schedule provoked it.
		if t.Failure == nil && t.current.Of > 0 {
			t.Failure = &Failure{
				Schedule: t.current.Schedule, Expected: "the operator keeps running, whatever responses it gets",
				Observed: t.Run.Reason, Evidence: t.Run.OperatorLog,
			}
		}
	}
}

// take takes a report of the checks on a trial.
func (t *torture) take(event protocol.Event, operator *operator) {
	trial := *event.Trial
	t.view(trial)
	t.Of = max(t.Of, trial.Of)
	if !trial.Ended {
		t.current, t.logged = trial, operator.logged()
		return
	}
	if trial.Final { // the last one that failed
		t.Failure = &Failure{
			Schedule: trial.Schedule, Expected: event.Expected, Observed: event.Observed, Evidence: event.Evidence,
			Problems: t.problems, Timeline: trial.Timeline,
		}
		return
	}
	if !trial.Passed {
		t.problems = operator.problems(t.logged)
	}
	t.Tried = max(t.Tried, trial.Number)
}

// complete returns an error unless the trials came to an end.
func (t *torture) complete(output *logTail) error {
	// An operator that passes the trial without faults has more trials before it: it must have written something to
	// pass.
	if t.Failure == nil && (t.Of <= 1 || t.Tried < t.Of) {
		return output.failure(fmt.Sprintf("the trials ended after %d of %d", t.Tried, t.Of))
	}
	return nil
}
