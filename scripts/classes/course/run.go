// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// Job is a submission to be graded. Students who handed in the same work share one.
type Job struct {
	Key
	// Dir is the folder of the module.
	Dir string
	// Student is the first of the students who handed this in, and Others is how many more there are.
	Student string
	Others  int
	// Deployed is true for a lab whose checks deploy the submission. Only a few of those can be graded at a time.
	Deployed bool
	// Within is how long one run may take before it is cancelled from outside. The lab's own limit ends a run much
	// earlier. Default: no limit.
	Within time.Duration
}

// Grader grades one submission at a time in each slot.
type Grader interface {
	// Fetch downloads the modules that a submission needs, before anything is graded. It reports no error. Grade does.
	Fetch(ctx context.Context, job Job)
	// Grade grades a submission. It always returns a report. If the context is cancelled, the report is that of an
	// interrupted run. try counts the runs that the submission needed, from 1.
	Grade(ctx context.Context, job Job, try int, view View) *report.Report
	// Blank returns the report of a submission that was not graded. The caller sets Outcome and Reason.
	Blank(job Job) *report.Report
}

// View receives the progress of a run. It is grade.View.
type View interface {
	StepStarted(name string)
	StepProgress(name, note string)
	StepDone(name string, took time.Duration, note string)
	CheckStarted(check report.Check)
	CheckDone(check report.Check)
}

// Options configure Run.
type Options struct {
	Jobs    []Job
	Grader  Grader
	Journal *Journal
	// Slots is how many submissions are graded at a time. Default: one.
	Slots int
	// Deployed is how many of them may be of labs whose checks deploy the submission. Default: the number of slots.
	Deployed int
	// OnlyChanged accepts the known result of a work from the journal, even if it was graded by another version of the
	// grader or from another seed.
	OnlyChanged bool
	// Board shows the progress of the runs. Default: no progress is shown.
	Board *Board
}

// Tries is how often one call grades a submission at most if the runs decide nothing.
const Tries = 3

// grace is how long a run may take to end after its context is done.
const grace = 3 * time.Minute

// Result is the known result of a job.
type Result struct {
	Record
	Report *report.Report
}

// Decided returns how many results decide something about a submission.
func Decided(results map[Key]Result) (n int) {
	for _, r := range results {
		if r.final() {
			n++
		}
	}
	return n
}

// Run grades all jobs that the journal does not know yet, and returns the known results, by key. The error is internal:
// a failure of a submission is in its report. If the context ends, Run cancels the active runs, and the error is the
// context's cause. The journal has all results until then.
func Run(ctx context.Context, o Options) (map[Key]Result, error) {
	o.Slots = max(1, o.Slots)
	if o.Deployed <= 0 {
		o.Deployed = o.Slots
	}
	results := map[Key]Result{}
	var waiting []run
	for _, job := range o.Jobs {
		known, err := o.known(job)
		if err != nil {
			return nil, err
		}
		if known != nil {
			results[job.Key] = *known
			continue
		}
		waiting = append(waiting, run{Job: job, try: 1})
	}
	o.Board.start(len(o.Jobs), len(results), o.Slots)
	defer o.Board.end()
	for i, waits := range waiting {
		o.Board.fetching(i, len(waiting))
		o.Grader.Fetch(ctx, waits.Job)
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
	}
	o.Board.fetched()
	return results, o.gradeAll(ctx, waiting, results)
}

// known returns the result of a job that the journal has. It returns nil if the job must be graded.
func (o *Options) known(job Job) (*Result, error) {
	record, result, ok, err := o.Journal.Final(job.Key)
	if err == nil && !ok && o.OnlyChanged {
		record, result, ok, err = o.Journal.Known(job.Lab, job.Digest)
	}
	if err != nil || !ok {
		return nil, err
	}
	return &Result{record, result}, nil
}

// run is one try of a job.
type run struct {
	Job
	try int
}

// ended is a run that has ended in a slot.
type ended struct {
	run
	slot    int
	started time.Time
	report  *report.Report
}

// gradeAll grades the waiting runs. A run that decides nothing waits again, behind all others: the machine may be less
// busy then.
func (o *Options) gradeAll(ctx context.Context, waiting []run, results map[Key]Result) error {
	// An error of the journal ends the class, because later results would be lost.
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	done := make(chan ended)
	var free []int
	for slot := range o.Slots {
		free = append(free, slot)
	}
	running, deployed := 0, 0
	var problem error
	for {
		for len(free) > 0 && ctx.Err() == nil {
			i := o.next(waiting, deployed)
			if i < 0 {
				break
			}
			slot, begins := free[0], waiting[i]
			free = free[1:]
			waiting = append(waiting[:i:i], waiting[i+1:]...)
			running++
			if begins.Deployed {
				deployed++
			}
			go func() { done <- o.grade(ctx, begins, slot) }()
		}
		if running == 0 {
			break
		}
		e := <-done
		running--
		free = append(free, e.slot)
		if e.Deployed {
			deployed--
		}
		o.Board.ended(e)
		result, err := o.keep(e)
		if err != nil {
			problem = errors.Join(problem, err)
			abandon(err)
			continue
		}
		if !result.final() && e.try < Tries && ctx.Err() == nil {
			waiting = append(waiting, run{Job: e.Job, try: e.try + 1})
			continue
		}
		results[e.Key] = result
		o.Board.decided(e)
	}
	if problem != nil {
		return problem
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// next returns the index of the first waiting run that may begin, or -1 if none may.
func (o *Options) next(waiting []run, deployed int) int {
	for i := range waiting {
		if !waiting[i].Deployed || deployed < o.Deployed {
			return i
		}
	}
	return -1
}

// keep writes a run to the journal.
func (o *Options) keep(e ended) (Result, error) {
	record := Record{
		Key: e.Key, Student: e.Student, Try: e.try, Outcome: e.report.Outcome, Score: e.report.Score, Max: e.report.MaxScore,
		Started: e.started.UTC(), Seconds: time.Since(e.started).Seconds(), Slot: e.slot,
	}
	err := o.Journal.Add(record, e.report)
	if err == nil {
		return Result{record, e.report}, nil
	}
	// An inconsistent report is a defect of ours, and must not end the class. If the replacement can't be kept either, the
	// journal is broken.
	failed := o.failed(e.Job, fmt.Sprintf("the report of the run can't be saved: %v", err))
	record.Outcome, record.Score, record.Max = failed.Outcome, failed.Score, failed.MaxScore
	return Result{record, failed}, o.Journal.Add(record, failed)
}

// failed returns the report of a run without a result.
func (o *Options) failed(job Job, reason string) *report.Report {
	result := o.Grader.Blank(job)
	result.Outcome, result.Reason = report.Error, reason
	return result
}

// grade grades a submission in a slot, and always returns. A grader that panics, or that continues after its context is
// done, costs only this submission its grade.
func (o *Options) grade(ctx context.Context, r run, slot int) ended {
	e := ended{run: r, slot: slot, started: time.Now()}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.Within > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, r.Within, errTooLong)
	}
	defer cancel()
	view := o.Board.view(slot, r)
	reports := make(chan *report.Report, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				reports <- o.failed(r.Job, fmt.Sprintf("the grader itself failed: panic: %v", p))
			}
		}()
		reports <- o.Grader.Grade(limited, r.Job, r.try, view)
	}()
	select {
	case e.report = <-reports:
	case <-limited.Done():
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case e.report = <-reports:
		case <-timer.C:
			e.report = o.failed(r.Job, fmt.Sprintf("the run did not end within %s of its cancellation", grace))
		}
	}
	if ctx.Err() == nil && limited.Err() != nil && e.report.Outcome == report.Interrupted {
		e.report = o.failed(r.Job, fmt.Sprintf("the run was cancelled because it took longer than %s", r.Within))
	}
	return e
}

var errTooLong = errors.New("the run took too long")
