// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/submission"
)

// Options say what to grade, and with what.
type Options struct {
	Lab *manifest.Lab
	// Dir is the folder of the submission's module, and Main the package of its program there. Default: it is looked for.
	Dir, Main string
	// ControllerGen is the program that makes manifests from markers, Checks the test binary of the lab's checks.
	ControllerGen, Checks string
	// Start starts the cluster. It may hand out one that was started before; the run stops it. On is what kind of cluster it is,
	// for the report. Default: embedded.
	Start Start
	On    string
	// Kubectl is the program that scripts of the submission find as kubectl.
	Kubectl string
	// Seed is where all that is random comes from, so that a run can be repeated. Default: another one each time.
	Seed uint32
	// Stories is how many stories are played, where the lab has them: of the seed and of those that follow. Default: one.
	Stories int
	// Fetch lets the go command download the modules that the submission needs, before it is built. Default: nothing is
	// downloaded.
	Fetch bool
	// OperatorLog is the file into which the operator's output goes.
	OperatorLog string
	// BuildCache, System and Generated are as in submission.Workshop. Default of Generated: the BuildCache.
	BuildCache, System, Generated string
	// BuildGrace is how long the compiler goes on after another step has failed. Default: 15 s.
	BuildGrace time.Duration
	// StartTimeout is how long the operator may take from its start to its first request. Default: 20 s.
	StartTimeout time.Duration
	// UntilFailed ends the run with the first check that fails, for those who only want to know whether one does. Default: every
	// check runs.
	UntilFailed bool
	// View is told how the run goes on. Default: nobody is.
	View View

	// Scenes has Torture play the lab's scenes, too: mishaps so rare that an operator may be right without surviving them.
	Scenes bool

	torture *torture
}

// View is told how a run goes on, as it does.
type View interface {
	StepStarted(name string)
	// StepProgress says how far a step is, or what it waits for.
	StepProgress(name, note string)
	StepDone(name string, took time.Duration, note string)
	CheckStarted(report.Check)
	CheckDone(report.Check)
}

// run is a grading run while it goes on.
type run struct {
	Options
	report   *report.Report
	workshop *submission.Workshop
	cluster  *Cluster
	// user is the name by which the API server knows the operator.
	user string
	// rules are those of the operator's role.
	rules audit.Rules
	// account installs what the submission brings; nil: the administrator does.
	account *existing.Account
	// access is how the operator gets to the API server, and injector what it gets through.
	access   submission.Access
	injector *faults.Injector
	operator *operator
	// running is the check that began last, and logged how much the operator had logged by then, in bytes. ended are the checks
	// that came to an end.
	running string
	logged  int64
	ended   sets.Set[string]
	// environment is what the operator gets besides. freezer is the URL of the freezer, past the faults; empty in a lab
	// without one.
	environment  []string
	freezer      string
	closeFreezer func() error
	// scripts is by which the submission's scripts get to the API server, where somebody has to record that.
	scripts *faults.Injector
	// deployment is how the operator runs in the cluster; nil if it runs on this machine.
	deployment *deployment

	mutex sync.Mutex // of report, while steps run side by side
}

// verdict is what ends a run before all checks have run. It is a result, not an error of ours.
type verdict struct {
	outcome     report.Outcome
	reason      string
	diagnostics []report.Diagnostic
}

func (v *verdict) Error() string { return v.reason }

// Run grades. It always returns a report; cancelling the context makes it one of an interrupted run.
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
	r := &run{Options: options, report: Blank(options, started), user: submission.User, ended: sets.New[string]()}
	err := r.grade(ctx)
	r.conclude(ctx, err)
	r.report.Seconds = time.Since(started).Seconds()
	return r.report
}

// Blank is the report of a run that has just begun.
func Blank(options Options, started time.Time) *report.Report {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		dir = options.Dir
	}
	r := &report.Report{
		Schema: report.Schema, Lab: options.Lab.Name, Title: options.Lab.Title, Submission: report.Submission{Dir: dir},
		Outcome: report.Graded, Started: started, MaxScore: options.Lab.MaxScore(),
		Environment: report.Environment{Cluster: cmp.Or(options.On, "embedded"), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
	}
	for _, check := range options.Lab.Own() {
		r.Checks = append(r.Checks, *blank(check))
	}
	return r
}

// blank is a check that was not run.
func blank(check manifest.Check) *report.Check {
	return &report.Check{
		ID: check.ID, Title: check.Title, MaxPoints: check.Points, Lecture: check.Lecture, Causes: check.Causes,
		Status: report.Skipped, Reason: "skipped: the run ended before it",
	}
}

// grade is the run, step by step.
func (r *run) grade(ctx context.Context) (err error) {
	opened, err := submission.Open(r.Dir, r.Main)
	if err != nil {
		return &verdict{outcome: report.NotBuilt, reason: err.Error()}
	}
	r.report.Submission.Module = opened.Module
	r.report.Submission.Go = opened.Go
	r.report.Submission.ControllerRuntime = opened.ControllerRuntime
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	r.workshop = &submission.Workshop{
		Submission: opened, Scope: scope, ControllerGen: r.ControllerGen, Cache: r.BuildCache, System: r.System,
		Generated: cmp.Or(r.Generated, r.BuildCache),
	}
	if r.Fetch {
		if err := r.step(ctx, fetchModules, r.fetch); err != nil {
			return err
		}
	}
	manifests, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	r.rules = manifests.Rules()
	defer func() { r.report.Notices = slices.Concat(r.workshop.Notices(), manifests.Notices) }()
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	go r.watchCluster(ctx, abandon)
	if err := r.connect(ctx); err != nil {
		return err
	}
	if r.cluster.Pods != nil {
		r.StartTimeout = max(r.StartTimeout, podStartTimeout)
	}
	if r.Lab.Operator && r.cluster.Pods != nil {
		if err := r.step(ctx, "deploy", func(ctx context.Context) (string, error) {
			return "", asVerdict(r.deploy(ctx, manifests), report.NotGenerated)
		}); err != nil {
			return err
		}
		if err := r.preconditions(ctx); err != nil {
			return err
		}
		if err := asVerdict(r.deployment.register(ctx), report.NotGenerated); err != nil {
			return err
		}
		return r.operate(ctx, r.deployment.start)
	}
	manifests.Notices = append(manifests.Notices, r.workshop.Gaps(manifests, r.Lab.Operator)...)
	if err := r.step(ctx, "install the API", func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, errInstall)
		defer cancel()
		return "", asVerdict(manifests.Install(ctx, r.installer(), r.access), report.NotGenerated)
	}); err != nil {
		return err
	}
	if err := r.preconditions(ctx); err != nil {
		return err
	}
	if !r.Lab.Operator {
		return r.check(ctx, nil)
	}
	closeWebhooks, err := r.serveWebhooks(ctx, manifests)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWebhooks()) }()
	r.report.Submission.Arguments = r.workshop.Arguments()
	return r.operate(ctx, func(log io.Writer) (instance, error) {
		started, err := r.workshop.StartOperator(r.kubeconfig(), log, r.environment...)
		if err != nil {
			return nil, err
		}
		return local{started}, nil
	})
}

// watchCluster ends the run when the cluster is another run's.
func (r *run) watchCluster(ctx context.Context, abandon context.CancelCauseFunc) {
	select {
	case <-r.cluster.Lost:
		abandon(existing.ErrLost)
	case <-ctx.Done():
	}
}

// operate starts the operator, and lets the checks look at it.
func (r *run) operate(ctx context.Context, start func(log io.Writer) (instance, error)) (err error) {
	operator, err := r.newOperator(start)
	if err != nil {
		return err
	}
	r.operator = operator
	defer operator.close()
	defer func() { err = errors.Join(err, r.takeForbidden()) }()
	defer func() { err = operator.explain(err) }()
	if err := r.step(ctx, "start the operator", func(ctx context.Context) (string, error) {
		return "", operator.firstStart(ctx)
	}); err != nil {
		r.report.OperatorLog = operator.lastWords()
		return err
	}
	defer func() { r.report.OperatorLog = operator.lastWords() }()
	if r.Lab.Webhooks {
		if err := r.awaitWebhooks(ctx); err != nil {
			return err
		}
	}
	return r.check(ctx, operator)
}

// tearDown ends all that the run started, side by side: the student waits for it.
func (r *run) tearDown() error {
	var wait sync.WaitGroup
	var stopped, closed error
	if r.cluster != nil {
		wait.Go(func() { stopped = r.cluster.Stop() })
	}
	wait.Go(func() {
		closed = r.workshop.Scope.Close()
		r.disconnect()
	})
	wait.Wait()
	return errors.Join(r.noteLeftover(stopped), r.noteLeftover(closed))
}

// noteLeftover makes a notice of what can't be removed: it says nothing of the submission, and the next run tries again.
func (r *run) noteLeftover(err error) error {
	leftover, ok := errors.AsType[*process.LeftoverError](err)
	if !ok {
		return err
	}
	r.report.Notices = append(r.report.Notices, leftover.Error())
	return nil
}

// installTimeout is for what takes a tenth of a second.
const installTimeout = time.Minute

var errInstall = fmt.Errorf("the API was not installed within %s", installTimeout)

// kubeconfig is the file of the operator's access to the cluster.
func (r *run) kubeconfig() string { return filepath.Join(r.workshop.Scope.Dir, "operator.kubeconfig") }

func (r *run) fetch(ctx context.Context) (string, error) {
	modules := 0
	err := r.workshop.Fetch(ctx, func(done, total int) {
		modules = done
		r.View.StepProgress(fetchModules, fmt.Sprintf("%d of %d modules", done, total))
	})
	if modules == 0 {
		return "all are here", asVerdict(err, report.NotBuilt)
	}
	return fmt.Sprintf("%d modules", modules), asVerdict(err, report.NotBuilt)
}

// asVerdict makes what is wrong with the submission the outcome of the run. What hindered the run, and its user can clear
// away, is the reason of a run that could not be graded.
func asVerdict(err error, outcome report.Outcome) error {
	if problem, ok := errors.AsType[*submission.Problem](err); ok {
		return &verdict{outcome: outcome, reason: problem.Reason, diagnostics: problem.Diagnostics}
	}
	if inTheWay, ok := errors.AsType[*submission.InTheWayError](err); ok {
		return &verdict{outcome: report.Error, reason: inTheWay.Error()}
	}
	if hindrance, ok := errors.AsType[*submission.HindranceError](err); ok {
		return &verdict{outcome: report.Error, reason: hindrance.Reason}
	}
	return err
}

// prepare does side by side what can be: a cluster is started while the submission is built and its manifests are
// generated. A step that fails ends those that stand below it: what does not build matters more than what can't be
// generated from it, so a failing generator waits for the compiler, which may know the reason, but not for long: what is
// compiled for the first time takes minutes.
func (r *run) prepare(ctx context.Context) (*submission.Manifests, error) {
	var manifests *submission.Manifests
	steps := []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"build", func(ctx context.Context) (string, error) {
			return "", asVerdict(r.workshop.Build(ctx), report.NotBuilt)
		}},
		{"generate manifests", func(ctx context.Context) (note string, err error) {
			manifests, err = r.workshop.Generate(ctx)
			return "", asVerdict(err, report.NotGenerated)
		}},
		{startCluster, func(ctx context.Context) (note string, err error) {
			waits := func(reason string) { r.View.StepProgress(startCluster, reason) }
			if r.cluster, err = r.Start(ctx, waits); err != nil {
				return "", err
			}
			r.report.Environment.Kubernetes = r.cluster.Version
			return "Kubernetes " + r.cluster.Version, nil
		}},
	}
	errs := make([]error, len(steps))
	ctx, endAll := context.WithCancelCause(ctx)
	defer endAll(nil)
	var wait sync.WaitGroup
	for i, step := range steps {
		above := ctx
		below, end := context.WithCancelCause(ctx)
		defer end(nil)
		wait.Go(func() {
			if errs[i] = r.step(above, step.name, step.do); errs[i] != nil {
				end(errAborted)
				time.AfterFunc(r.BuildGrace, func() { endAll(errAborted) })
			}
		})
		ctx = below
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, errAborted) {
			return nil, err
		}
	}
	return manifests, nil
}

const (
	fetchModules = "fetch modules"
	startCluster = "start a cluster"
)

// buildGrace is long enough to find a mistake in a submission whose dependencies are compiled.
const buildGrace = 15 * time.Second

var errAborted = errors.New("ended because another step failed")

// step runs one step, shows it and times it.
func (r *run) step(ctx context.Context, name string, do func(context.Context) (note string, err error)) error {
	r.View.StepStarted(name)
	started := time.Now()
	note, err := do(ctx)
	took := time.Since(started)
	if err != nil {
		note = "failed"
		if ctx.Err() != nil {
			// Whatever the step says of it: it was ended.
			err, note = context.Cause(ctx), "ended"
		}
	}
	r.View.StepDone(name, took, note)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.report.Steps = append(r.report.Steps, report.Step{Name: name, Seconds: took.Seconds()})
	return err
}

// conclude turns what ended the run into its outcome, and adds up the points.
func (r *run) conclude(ctx context.Context, err error) {
	var v *verdict
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.report.Outcome, r.report.Reason = report.Interrupted, "the run was interrupted before all checks had run"
	case errors.As(err, &v):
		r.report.Outcome, r.report.Reason, r.report.Diagnostics = v.outcome, v.reason, v.diagnostics
	default:
		r.report.Outcome, r.report.Reason = report.Error, "the grader itself failed: "+err.Error()
	}
	r.report.Score = 0
	for i := range r.report.Checks {
		check := &r.report.Checks[i]
		check.Points = 0
		if check.Status == report.Passed {
			check.Points = check.MaxPoints
			r.report.Score += check.Points
		}
	}
}

type silent struct{}

func (silent) StepStarted(string)                     {}
func (silent) StepProgress(string, string)            {}
func (silent) StepDone(string, time.Duration, string) {}
func (silent) CheckStarted(report.Check)              {}
func (silent) CheckDone(report.Check)                 {}
