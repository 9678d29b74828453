// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// trialRecorder records the trials that a torture reported: "begins 2 of 5 [kill-before write 1]".
type trialRecorder struct {
	mutex  sync.Mutex
	trials []string
}

func (s *trialRecorder) view(trial protocol.Trial) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	event := "begins"
	switch {
	case trial.Final:
		event = "concludes"
	case trial.Passed:
		event = "passed"
	case trial.Ended:
		event = "failed"
	}
	s.trials = append(s.trials, fmt.Sprintf("%s %d of %d [%s]", event, trial.Number, trial.Of, trial.Schedule))
}

// tortured runs a torture and checks what must hold for all trials: they survive a round trip through JSON, and
// contain no grade.
func tortured(t *testing.T, options Options, random int) (*Trials, []string) {
	t.Helper()
	var recorder trialRecorder
	trials := Torture(t.Context(), options, random, recorder.view)
	if len(trials.Run.Checks) != 0 || trials.Run.Score != 0 || trials.Run.MaxScore != 0 ||
		(trials.Run.Seed == 0) != (trials.Of == 0 && trials.Run.Outcome != report.Crashed) {
		t.Errorf("the run of the trials has a grade, or no seed: %+v", trials.Run)
	}
	content, err := json.Marshal(trials)
	if err != nil {
		t.Fatal(err)
	}
	var read Trials
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	if read.Tried != trials.Tried || read.Of != trials.Of || (read.Failure == nil) != (trials.Failure == nil) {
		t.Errorf("trials from JSON are %+v, want %+v", read, trials)
	}
	return trials, recorder.trials
}

func TestTortureOfCorrectOperator(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	options := played(t, "02-labels", unpack(t, "labels"))
	options.Seed = 4711
	// The schedules are: no faults, two crashes at each of its two writes, and the faults that the seed draws for these
	// two writes, wherever the torture runs.
	want := []string{"no faults", "kill-before write 1", "kill-after write 1", "kill-before write 2", "kill-after write 2"}
	const random, writes, reads = 3, 2, 0
	for n := range random {
		want = append(want, faults.Random(4711, n, writes, reads).String())
	}
	trials, progress := tortured(t, options, random)
	if !trials.Survived() || trials.Failure != nil ||
		trials.Tried != len(want) || trials.Of != len(want) || trials.Run.Seed != 4711 {
		t.Errorf("the submission does not survive: %d of %d tried with seed %d, %s %s, %+v\n%s",
			trials.Tried, trials.Of, trials.Run.Seed,
			trials.Run.Outcome, trials.Run.Reason, trials.Failure, strings.Join(trials.Run.OperatorLog, "\n"))
	}
	var wantProgress []string
	for i, schedule := range want {
		total := len(want)
		if i == 0 {
			total = 1 // their number is unknown until the trial without faults is over
		}
		for _, event := range []string{"begins", "passed"} {
			wantProgress = append(wantProgress, fmt.Sprintf("%s %d of %d [%s]", event, i+1, total, schedule))
		}
	}
	if !slices.Equal(progress, wantProgress) {
		t.Errorf("progress is\n%s\nwant\n%s", strings.Join(progress, "\n"), strings.Join(wantProgress, "\n"))
	}
}

func TestTortureOfFaultyOperators(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	type row struct {
		submission string
		outcome    report.Outcome
		reason     string
		// schedule is the schedule under which it fails. It is empty if no schedule was tried.
		schedule, expected, observed string
		// tried is how many schedules were run to the end. evidence and timeline match the evidence and the timeline.
		tried              int
		evidence, timeline string
	}
	for _, test := range []row{
		{
			submission: "base", outcome: report.Graded, schedule: "no faults", expected: "^sundae has a cup and a spoon$",
			observed: `^its labels are \[\] \(and the operator has been silent for [\d.]+s\)$`, tried: 1,
			// It has listed before the check began. On a busy machine, its watch starts later.
			evidence: "^what went wrong: no faults\n(the operator has sent no request since this check began\n)?" +
				".*the check: create icecreams sundae → 201 Created(\n.* watch icecreams → 200 OK)?$",
			timeline: "^the check: create icecreams sundae(\nwatch icecreams)?$",
		},
		{
			submission: "labels-thoughtless", outcome: report.Graded, schedule: "kill-after write 1",
			expected: "^sundae has a cup and a spoon$",
			observed: `^its labels are \["cup"\] \(and the operator has been silent for [\d.]+s\)$`, tried: 3,
			evidence: `(?s)^what went wrong: kill-after write 1\n` +
				`.* patch icecreams sundae → 200 OK \(write 1, kill-after\)\n` +
				`.*the operator was killed\n.*the operator was started\n.*list icecreams`,
			timeline: "^the check: create icecreams sundae\npatch icecreams sundae kill-after\n" +
				"the operator was killed\nthe operator was started\nlist icecreams\nwatch icecreams$",
		},
		{
			submission: "labels-brittle", outcome: report.Crashed,
			reason:   "^it ended by itself: exit status 2; it panicked: a cup without a spoon, at cmd/behaviour.go:",
			schedule: "kill-after write 1",
			expected: "^the operator keeps running, whatever responses it gets$",
			observed: "^it ended by itself: exit status 2; it panicked: ", tried: 2,
			evidence: "(?s)panic: a cup without a spoon.*behaviour.go:",
		},
		{
			submission: "crashes-at-start", outcome: report.NotStarted,
			reason: "^it ended before it listed or watched anything at the API server",
		},
		{submission: "does-not-compile", outcome: report.NotBuilt, reason: "^it does not compile$"},
	} {
		t.Run(test.submission, func(t *testing.T) {
			t.Parallel()
			names := []string{test.submission}
			if strings.HasPrefix(test.submission, "labels-") {
				names = []string{"labels", test.submission}
			}
			options := played(t, "02-labels", unpack(t, names...))
			options.Seed = 4711
			trials, progress := tortured(t, options, 0)
			if trials.Run.Outcome != test.outcome || trials.Survived() {
				t.Errorf("outcome is %s, survived: %t\n%s",
					trials.Run.Outcome, trials.Survived(), strings.Join(trials.Run.OperatorLog, "\n"))
			}
			match(t, "the reason", trials.Run.Reason, test.reason)
			if test.schedule == "" {
				if trials.Failure != nil || len(progress) > 0 {
					t.Errorf("no schedule was tried, but the failure is %+v, with the progress %q", trials.Failure, progress)
				}
				return
			}
			failure := trials.Failure
			if failure == nil || failure.Schedule.String() != test.schedule || trials.Tried != test.tried {
				t.Fatalf("%d schedules were tried, the failure is %+v, with the progress %q", trials.Tried, failure, progress)
			}
			match(t, "the expectation", failure.Expected, test.expected)
			match(t, "the observation", failure.Observed, test.observed)
			match(t, "the evidence", strings.Join(failure.Evidence, "\n"), test.evidence)
			var timeline []string
			for _, entry := range failure.Timeline {
				timeline = append(timeline, strings.TrimSpace(entry.Summary()+" "+string(entry.Fault)))
			}
			match(t, "the timeline", strings.Join(timeline, "\n"), test.timeline)
		})
	}
}

// Some events end trials early. Scripts print the events of the checks.
func TestIncompleteTrials(t *testing.T) {
	t.Parallel()
	event := func(trial protocol.Trial) string {
		content, err := json.Marshal(protocol.Event{Observed: "the shop is closed", Trial: &trial})
		if err != nil {
			t.Fatal(err)
		}
		return "echo '" + string(content) + "' >&3\n"
	}
	kill := faults.Schedule{Faults: []faults.Fault{{Kind: faults.KillAfter, Class: faults.Write, At: 3}}}
	both := faults.Schedule{
		Seed:   1,
		Faults: append([]faults.Fault{{Kind: faults.Conflict, Class: faults.Write, At: 1}}, kill.Faults...),
	}
	passed := func(number, total int) string {
		return event(protocol.Trial{Number: number, Of: total}) +
			event(protocol.Trial{Number: number, Of: total, Ended: true, Passed: true})
	}
	for _, test := range []struct {
		name, script, submission string
		outcome                  report.Outcome
		reason                   string
		// failure is the schedule of the failure and what was observed. It is empty if there is none.
		failure string
		tried   int
	}{
		{
			"they end too early", passed(1, 1) + passed(2, 3) + "echo 'panic: a mistake of ours'",
			"labels", report.Error, "(?s)the trials ended after 2 of 3.*a mistake of ours", "", 2,
		},
		{
			// The schedule that is running at that moment provoked it.
			"the operator ends while a shorter schedule is looked for",
			passed(1, 1) + event(protocol.Trial{Number: 2, Of: 9, Schedule: both}) +
				event(protocol.Trial{Number: 2, Of: 9, Schedule: both, Ended: true}) +
				event(protocol.Trial{Of: 9, Schedule: kill}) +
				"touch \"$(dirname \"$" + protocol.RunVariable + "\")/tmp/end\"; exec sleep 1000",
			"labels-ends-when-told", report.Crashed, "^it ended by itself: exit status 3$",
			"kill-after write 3: it ended by itself: exit status 3", 2,
		},
		{
			"the operator ends before the first trial",
			"touch \"$(dirname \"$" + protocol.RunVariable + "\")/tmp/end\"; exec sleep 1000",
			"labels-ends-when-told", report.Crashed, "^it ended by itself: exit status 3$", "", 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := played(t, "02-labels", unpack(t, "labels", test.submission))
			options.Checks = filepath.Join(t.TempDir(), "checks")
			if err := os.WriteFile(options.Checks, []byte("#!/bin/sh\n"+test.script), 0o700); err != nil {
				t.Fatal(err)
			}
			trials, progress := tortured(t, options, 0)
			if trials.Run.Outcome != test.outcome || trials.Survived() || trials.Tried != test.tried {
				t.Errorf("outcome is %s, %d tried, survived: %t; progress is %q",
					trials.Run.Outcome, trials.Tried, trials.Survived(), progress)
			}
			match(t, "the reason", trials.Run.Reason, test.reason)
			failure := ""
			if trials.Failure != nil {
				failure = trials.Failure.Schedule.String() + ": " + trials.Failure.Observed
			}
			if failure != test.failure {
				t.Errorf("failure is %q, want %q", failure, test.failure)
			}
		})
	}
}

// A sweep of any length gets enough time, and one that times out blames no schedule.
func TestTimeLimitOfTrials(t *testing.T) {
	t.Parallel()
	few, many := &torture{random: RandomSchedules}, &torture{random: 1000}
	if least := 1000 * 2 * time.Second; many.limit()-few.limit() < least || few.limit() < 10*time.Minute {
		t.Errorf("%d random schedules may take %s, and %d %s", few.random, few.limit(), many.random, many.limit())
	}
	for outcome, blamed := range map[report.Outcome]bool{
		report.TimedOut: false, report.Crashed: true, report.Flooded: true,
	} {
		trials := &torture{current: protocol.Trial{Number: 8, Of: 9}}
		trials.Run.Outcome, trials.Run.Reason, trials.Tried, trials.Of = outcome, "it ended", 7, 9
		trials.conclude()
		if blamed != (trials.Failure != nil) || trials.Survived() {
			t.Errorf("%s: failure is %v, survived: %t", outcome, trials.Failure, trials.Survived())
		}
		if reported := strings.HasSuffix(trials.Run.Reason, "; 7 of 9 schedules were played"); reported == blamed {
			t.Errorf("%s: reason is %q", outcome, trials.Run.Reason)
		}
	}
}
