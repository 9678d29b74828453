// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// Options define what to grade, and with which programs and settings.
type Options struct {
	Lab *manifest.Lab
	// Dir is the folder of the submission's module, and Main the package of its program there. By default, Run searches
	// for the package.
	Dir, Main string
	// ControllerGen is the program that generates manifests from markers, and Checks the test binary of the lab's checks.
	ControllerGen, Checks string
	// Start starts the cluster, or returns one that was started before. The run stops it. On is the kind of cluster, for
	// the report. Default: embedded.
	Start stage.Start
	On    string
	// Kubectl is the control plane's multicall program. Scripts of the submission find it as kubectl, and an aggregated
	// API server that needs an etcd gets it as etcd.
	Kubectl string
	// Seed is the seed of everything random, so that a run can be repeated. Default: a new seed for each run.
	Seed uint32
	// First is the ID of the check that runs before all others, after the checks that it needs. Default: the order of
	// the list.
	First string
	// NotStarted are the steps of the lab that the submission has not started. Their checks run, too, but wait only
	// briefly. Default: none.
	NotStarted []int
	// Stories is how many stories are run, if the lab has stories: the story of the seed and those of the seeds that
	// follow. Default: one.
	Stories int
	// Fetch lets the go command download the modules that the submission needs, before it is built. Default: nothing is
	// downloaded.
	Fetch bool
	// Sandbox defines whether the programs that the submission runs on this machine are sandboxed. Default: as far as
	// this machine can.
	Sandbox Sandbox
	// OperatorLog is the file to which the operator's output is written.
	OperatorLog string
	// BuildCache, System and Generated are as in submission.Builder. Default of Generated: the BuildCache.
	BuildCache, System, Generated string
	// BuildGrace is how long the compiler continues after another step has failed. Default: 15 s.
	BuildGrace time.Duration
	// StartTimeout is how long the operator may take from its start to its first request. Default: 20 s.
	StartTimeout time.Duration
	// UntilFailed ends the run with the first check that fails, for callers that only need to know whether one does.
	// Default: every check runs.
	UntilFailed bool
	// View receives the progress of the run. Default: none.
	View View

	// Scenes makes Torture run the lab's scenes, too: stories with a failure so rare that an operator may be correct
	// without surviving it.
	Scenes bool

	torture *torture
}

// View receives the progress of a run.
type View interface {
	StepStarted(name string)
	// StepProgress reports how far a step has come, or what it waits for.
	StepProgress(name, note string)
	StepDone(name string, took time.Duration, note string)
	CheckStarted(report.Check)
	CheckDone(report.Check)
}

// run is a grading run in progress.
type run struct {
	Options
	mutex   sync.Mutex // of report, while steps run side by side
	report  *report.Report
	machine *machine
	// starved is what the machine supplied during a check that failed, if the machine starved the run at that time.
	starved supply
}

// verdict ends a run before all checks have run. It is a result, not an error of the grader.
type verdict struct {
	outcome     report.Outcome
	reason      string
	diagnostics []report.Diagnostic
	// ending describes how the operator ended, if it crashed.
	ending string
	// machine is true if the machine stopped the run or was too busy, so that another run may be graded.
	machine bool
}

func (v *verdict) Error() string { return v.reason }

// Run grades a submission. It always returns a report. If the context is cancelled, the report is that of an
// interrupted run.
func Run(ctx context.Context, options Options) *report.Report {
	if options.View == nil {
		options.View = silent{}
	}
	options.StartTimeout = cmp.Or(options.StartTimeout, startTimeout)
	options.BuildGrace = cmp.Or(options.BuildGrace, buildGrace)
	for options.Seed == 0 {
		options.Seed = rand.Uint32()
	}
	started := time.Now()
	r := &run{Options: options, report: Blank(options, started)}
	r.machine = watchMachine()
	err := r.grade(ctx)
	r.conclude(ctx, r.reconsider(err, r.machine.stop()))
	r.report.Seconds = time.Since(started).Seconds()
	return r.report
}

// Blank returns the report of a run that has just started.
func Blank(options Options, started time.Time) *report.Report {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		dir = options.Dir
	}
	r := &report.Report{
		Schema: report.Schema, Lab: options.Lab.Name, Title: options.Lab.Title, Submission: report.Submission{Dir: dir},
		Outcome: report.Graded, Started: started, MaxScore: options.Lab.MaxScore(),
		Environment: report.Environment{
			Cluster: cmp.Or(options.On, "embedded"), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		},
	}
	for _, check := range options.Lab.Own() {
		r.Checks = append(r.Checks, *blank(check))
	}
	var undecided []string
	for _, check := range options.Lab.Undecided {
		undecided, r.Undecided = append(undecided, check.ID), r.Undecided+check.Points
	}
	if r.Undecided > 0 {
		r.Notices = append(r.Notices, fmt.Sprintf("Not graded here, since no Pod runs: %s. "+
			"They are worth %d points, so this run is not a grade.",
			english.WordSeries(undecided, "and"), r.Undecided))
	}
	return r
}

// PlanOwnTests adds the check of the student's own tests to the report of a run that has not ended, if the tests are
// worth points in the lab.
func PlanOwnTests(r *report.Report, lab *manifest.Lab) {
	if listed := lab.OwnTests(); listed != nil {
		r.Checks, r.MaxScore = append(r.Checks, report.Check{
			ID: listed.ID, Title: listed.Title, MaxPoints: listed.Points, Lecture: listed.Lecture,
			Status: report.Skipped, Reason: "skipped: the run ended before it",
		}), r.MaxScore+listed.Points
	}
}

// blank is a check that was not run.
func blank(check manifest.Check) *report.Check {
	return &report.Check{
		ID: check.ID, Title: check.Title, Extension: check.Extension, Part: check.Part,
		MaxPoints: check.Points, Lecture: check.Lecture,
		Causes: check.Causes, Status: report.Skipped, Reason: "skipped: the run ended before it",
	}
}

// grade performs the run, step by step. Each step uses the results of the steps before it.
func (r *run) grade(ctx context.Context) (err error) {
	builder, err := r.open()
	if err != nil {
		return err
	}
	if r.Sandbox == SandboxRequired {
		if _, err := TrySandbox(ctx, builder.Scope); err != nil {
			return errors.Join(asVerdict(err, report.Error), builder.Scope.Close())
		}
	}
	var st stage.Stage
	var links *connection
	defer func() {
		r.report.Environment.Containment = string(builder.Scope.Containment())
		r.report.Environment.Walls = names(builder.Scope.Walls())
		own := builder.Writable()
		if st != nil {
			own = append(own, st.Cluster().AuditLog)
		}
		err = errors.Join(r.orFullDisk(err, own), r.tearDown(builder, st, links))
	}()
	if r.Fetch {
		if err := r.step(ctx, fetchModules, func(ctx context.Context) (string, error) {
			return r.fetch(ctx, builder)
		}); err != nil {
			return err
		}
	}
	var manifests *submission.Manifests
	if st, manifests, err = r.prepare(ctx, builder); err != nil {
		return err
	}
	defer func() { r.report.Notices = slices.Concat(builder.Notices(), manifests.Notices, r.report.Notices) }()
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	go watchCluster(ctx, st.Cluster(), abandon)
	if r.Lab.Stage == manifest.Deployed {
		links = &connection{}
		return r.deliver(ctx, st, builder, manifests)
	}
	if links, err = r.connect(st); err != nil {
		return err
	}
	subject, err := r.install(ctx, st, builder, manifests, links)
	if err != nil {
		return err
	}
	if err := r.preconditions(ctx, subject); err != nil {
		return err
	}
	if !r.Lab.Operator {
		return r.check(ctx, subject, nil)
	}
	launcher, err := r.prepareWebhooks(ctx, subject)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, launcher.Close()) }()
	return r.operate(ctx, subject, launcher, max(r.StartTimeout, st.StartTimeout()))
}

// watchCluster ends the run when another run has taken the cluster.
func watchCluster(ctx context.Context, cluster *stage.Cluster, abandon context.CancelCauseFunc) {
	select {
	case <-cluster.Lost:
		abandon(existing.ErrLost)
	case <-ctx.Done():
	}
}

// operate starts the operator and runs the checks.
func (r *run) operate(ctx context.Context, s *subject, launcher stage.Operator, patience time.Duration) (err error) {
	r.report.Submission.Arguments = launcher.Arguments()
	operator, err := newOperator(s, launcher, r.OperatorLog)
	if err != nil {
		return err
	}
	operator.machine = r.machine
	defer operator.close()
	r.report.Notices = append(r.report.Notices, operator.untestedFeatures(r.torture != nil)...)
	// Any other end may be a consequence of a flooded audit log, so its verdict comes first.
	defer func() { err = errors.Join(r.takeForbidden(s), err) }()
	defer func() { r.report.OperatorLog = operator.lastLogLines() }()
	defer func() { err = operator.explain(err) }()
	if r.torture != nil {
		end, err := operator.followStorage()
		if err != nil {
			return err
		}
		defer end()
	}
	if err := r.step(ctx, "start the operator", func(ctx context.Context) (string, error) {
		return "", operator.firstStart(ctx, patience)
	}); err != nil {
		return err
	}
	if r.Lab.Webhooks || r.Lab.Aggregated {
		if err := launcher.AwaitListening(ctx); err != nil {
			return err
		}
	}
	return r.check(ctx, s, operator)
}

// tearDown ends everything that the run started, concurrently, because the student waits for it.
func (r *run) tearDown(builder *submission.Builder, st stage.Stage, links *connection) error {
	var wait sync.WaitGroup
	var stopped, closed error
	if st != nil {
		wait.Go(func() { stopped = st.Close() })
	}
	wait.Go(func() {
		closed = builder.Scope.Close()
		if links != nil {
			r.takeTimeline(links)
			links.close()
		}
	})
	wait.Wait()
	return errors.Join(r.noteLeftover(stopped), r.noteLeftover(closed))
}

// noteLeftover turns a leftover that can't be removed into a notice. A leftover is no evidence about the submission,
// and the next run tries again to remove it.
func (r *run) noteLeftover(err error) error {
	leftover, ok := errors.AsType[*process.LeftoverError](err)
	if !ok {
		return err
	}
	r.report.Notices = append(r.report.Notices, leftover.Error())
	return nil
}

// step runs one step, shows it and times it. A panic of the step is an error of it: steps that run concurrently would
// otherwise end the whole program, with all other runs.
func (r *run) step(ctx context.Context, name string, do func(context.Context) (note string, err error)) error {
	r.View.StepStarted(name)
	started := time.Now()
	note, err := recovered(ctx, do)
	took := time.Since(started)
	if err != nil {
		note = "failed"
		if ctx.Err() != nil {
			// The step's own error does not count, because the run was ended.
			err, note = context.Cause(ctx), "ended"
		}
	}
	r.View.StepDone(name, took, note)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.report.Steps = append(r.report.Steps, report.Step{Name: name, Seconds: took.Seconds()})
	return err
}

// recovered calls do, and turns a panic into an error with its stack.
func recovered(ctx context.Context, do func(context.Context) (string, error)) (note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}

// conclude turns the error that ended the run into its outcome, and adds up the points.
func (r *run) conclude(ctx context.Context, err error) {
	var v *verdict
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.report.Outcome, r.report.Reason = report.Interrupted, "it ended before all checks had run"
		r.report.OperatorLog = nil // its last lines do not explain the interruption
	case errors.As(err, &v):
		r.report.Outcome, r.report.Reason, r.report.Diagnostics = v.outcome, v.reason, v.diagnostics
		r.report.MachineError = v.machine
	default:
		r.report.Outcome, r.report.Reason = report.Error, "the grader itself failed: "+err.Error()
		if lacks, ok := errors.AsType[*node.Unavailable](err); ok {
			r.report.Reason = r.withoutNode(lacks)
		}
	}
	r.report.Score = 0
	for i := range r.report.Checks {
		check := &r.report.Checks[i]
		check.Points = 0
		if check.Status == report.Passed {
			check.Points = check.MaxPoints
			if !check.Extension {
				r.report.Score += check.Points
			}
		}
	}
}

// withoutNode returns the reason that no grade is possible because this machine can't run a node, and what to do.
func (r *run) withoutNode(lacks *node.Unavailable) string {
	reason := fmt.Sprintf("lab %d needs Pods, and none can run on this machine: %s", r.Lab.Number, lacks.Error())
	if _, err := r.Lab.WithoutNode(); err == nil {
		reason += "; with --without-node, only the checks that need no Pod are graded"
	}
	return reason
}

type silent struct{}

func (silent) StepStarted(string)                     {}
func (silent) StepProgress(string, string)            {}
func (silent) StepDone(string, time.Duration, string) {}
func (silent) CheckStarted(report.Check)              {}
func (silent) CheckDone(report.Check)                 {}
