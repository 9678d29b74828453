// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package grader grades the submissions of a class as `lab grade` does, on control planes that it reuses for later
// runs. It does not decide when a submission is graded (package course), or how many points count (package
// course/rules).
package grader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/authoring/testgrade"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/classes/course"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/submission"
)

// Options configure a Grader.
type Options struct {
	// Labs are the labs. As in package certify, the grader uses the fields Checkout, Lab, ControllerGen, Checks, Harness
	// and WithNode of each.
	Labs []certify.Options
	// Assets returns the folder with etcd, kube-apiserver and kubectl. It is called if a lab gives points for the
	// student's own tests.
	Assets func(ctx context.Context) (string, error)
	// Sandbox is SandboxRequired or SandboxOff.
	Sandbox grade.Sandbox
}

// Grader is a course.Grader.
type Grader struct {
	Options
	scope *process.Scope
	walls []string
	labs  map[string]*lab
	// bare lends clusters without a node. Labs share it, so there are never more clusters than slots.
	bare *own.Pool

	mutex sync.Mutex
	// unfetched holds, by folder of a submission, why its modules could not be downloaded.
	unfetched map[string]error
}

type lab struct {
	certify.Options
	pool *own.Pool
	// running is the number of runs that have a cluster of the pool.
	running int
	// assets is the folder for the student's own tests. Empty: they are not graded.
	assets string
}

// New returns a grader. The caller must close it, and must have built everything that grading needs.
func New(ctx context.Context, options Options) (_ *Grader, err error) {
	g := &Grader{Options: options, labs: map[string]*lab{}, unfetched: map[string]error{}}
	if g.scope, err = process.NewScope(process.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.Sandbox != grade.SandboxOff {
		g.walls, err = grade.TrySandbox(ctx, g.scope)
		if err != nil && (g.Sandbox == grade.SandboxRequired || !errors.As(err, new(*grade.MissingWallsError))) {
			return nil, err
		}
	}
	for _, labOptions := range options.Labs {
		entry := &lab{Options: labOptions}
		switch withNode := labOptions.Lab.NeedsNode(labOptions.Lab.Stage); {
		case !withNode && g.bare != nil:
			entry.pool = g.bare
		default:
			if entry.pool, err = entry.NewPool(); err != nil {
				return nil, err
			}
			if !withNode {
				g.bare = entry.pool
			}
		}
		g.labs[labOptions.Lab.Name] = entry
		if labOptions.Lab.OwnTests() != nil {
			if entry.assets, err = options.Assets(ctx); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// Close stops the control planes.
func (g *Grader) Close() (err error) {
	for _, entry := range g.labs {
		err = errors.Join(err, entry.pool.Close())
	}
	return errors.Join(err, g.scope.Close())
}

// lend lends a cluster to a run of a lab, until it is returned. It stops the clusters of other labs that have no run,
// because labs are graded one after the other.
func (g *Grader) lend(l *lab) (lease *own.Lease, giveBack func()) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	l.running++
	busy := map[*own.Pool]bool{}
	for _, other := range g.labs {
		busy[other.pool] = busy[other.pool] || other.running > 0
	}
	for pool, used := range busy {
		if !used {
			_ = pool.Close() // a later run removes what remains
		}
	}
	lease = l.pool.Lease()
	return lease, func() {
		lease.Return()
		g.mutex.Lock()
		defer g.mutex.Unlock()
		l.running--
	}
}

// Walls describes the sandbox in words.
func (g *Grader) Walls() string {
	if g.Sandbox == grade.SandboxOff {
		return "none: submissions ran as the user who ran the grader"
	}
	if len(g.walls) == 0 {
		return "none, because this machine supports none: submissions ran as the user who ran the grader"
	}
	return strings.Join(g.walls, ", ")
}

// Describe describes a lab for package course.
func (g *Grader) Describe(name string) (course.Lab, error) {
	entry := g.labs[name]
	id, err := entry.Grader()
	if err != nil {
		return course.Lab{}, err
	}
	return course.Lab{
		Name: entry.Lab.Name, Title: entry.Lab.Title, Number: entry.Lab.Number, Max: entry.Lab.FullScore(),
		Grader: id, Deployed: entry.Lab.Stage == manifest.Deployed,
		Within: within(entry.Lab),
	}, nil
}

// within returns how long a run of a lab may take. The run's own limits end it much earlier, unless they do not work.
func within(l *manifest.Lab) time.Duration {
	limit := l.TimeLimit.Duration + buildsAtMost
	if l.OwnTests() != nil {
		limit += testsAtMost
	}
	return limit
}

// The steps of a run before its checks take minutes at most, and so do the student's own tests, apart from their
// mutants.
const (
	buildsAtMost = 30 * time.Minute
	testsAtMost  = testgrade.DefaultWithin + 15*time.Minute
)

// Blank returns the report of a submission that was not graded.
func (g *Grader) Blank(job course.Job) *report.Report {
	entry := g.labs[job.Lab]
	r := grade.Blank(grade.Options{Lab: entry.Lab, Dir: job.Dir}, time.Now())
	grade.PlanOwnTests(r, entry.Lab)
	return r
}

// Fetch downloads the modules that a submission needs. It uses only module proxies.
func (g *Grader) Fetch(ctx context.Context, job course.Job) {
	err := g.fetch(ctx, job)
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.unfetched[job.Dir] = err; err == nil {
		delete(g.unfetched, job.Dir)
	}
}

func (g *Grader) fetch(ctx context.Context, job course.Job) (err error) {
	if submission.MissingModules(job.Dir) == 0 {
		return nil
	}
	manifestLab := g.labs[job.Lab].Lab
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	builder := submission.Builder{
		Submission: &submission.Submission{Dir: job.Dir}, Scope: scope, Tests: manifestLab.OwnTests() != nil, ProxyOnly: true,
		System: system(manifestLab),
	}
	return builder.Fetch(ctx, func(int, int) {})
}

// system returns the system that a submission is built for. Empty: this machine's system.
func system(l *manifest.Lab) string {
	if l.Stage.Pods() {
		return "linux"
	}
	return ""
}

// fetchFailure returns the report of a submission whose modules could not be downloaded. It returns nil if they could.
func (g *Grader) fetchFailure(job course.Job) *report.Report {
	g.mutex.Lock()
	err := g.unfetched[job.Dir]
	g.mutex.Unlock()
	if err == nil {
		return nil
	}
	r := g.Blank(job)
	r.Outcome, r.Reason = report.Error, err.Error()
	if problem, ok := errors.AsType[*submission.Problem](err); ok {
		r.Outcome, r.Reason, r.Diagnostics = report.NotBuilt, problem.Reason, problem.Diagnostics
	}
	return r
}

// Grade grades a submission. The first try uses a control plane that earlier runs have used. If it gives no result, the
// next try gets its own control plane.
func (g *Grader) Grade(ctx context.Context, job course.Job, try int, view course.View) *report.Report {
	entry := g.labs[job.Lab]
	if try > 1 && g.fetchFailure(job) != nil {
		g.Fetch(ctx, job)
	}
	if r := g.fetchFailure(job); r != nil {
		return r
	}
	options := entry.Run(job.Dir)
	if try == 1 {
		lease, giveBack := g.lend(entry)
		defer giveBack()
		options.Start = lease.Start
	}
	options.Seed, options.View = job.Seed, view
	options.Generated = filepath.Join(g.scope.Dir, "generated")
	options.Sandbox = g.Sandbox
	log, err := os.CreateTemp(g.scope.Dir, "operator-*.log")
	if err == nil {
		options.OperatorLog, err = log.Name(), log.Close()
		defer os.Remove(options.OperatorLog)
	}
	if err == nil && entry.Lab.Steps() > 0 {
		options.NotStarted, err = skeleton.NotStarted(entry.Root, entry.Lab.Name, job.Dir)
	}
	if err != nil {
		r := g.Blank(job)
		r.Outcome, r.Reason = report.Error, fmt.Sprintf("the grader itself failed: %v", err)
		return r
	}
	result := grade.Run(ctx, options)
	g.gradeTests(ctx, entry, job, result, view)
	return result
}

const ownTestsStep = "grade your tests"

// gradeTests grades the student's own tests in a lab in which they are worth points, as `lab grade` does.
func (g *Grader) gradeTests(ctx context.Context, l *lab, job course.Job, result *report.Report, view course.View) {
	if l.Lab.OwnTests() == nil || result.Outcome != report.Graded {
		testgrade.Add(result, nil, l.Lab)
		return
	}
	began := time.Now()
	view.StepStarted(ownTestsStep)
	tests := testgrade.Run(ctx, testgrade.Options{
		Lab: l.Lab, Dir: job.Dir, Solution: l.SolutionDir(l.Lab), Assets: l.assets, Parallel: 1, Decide: true,
		Walled: g.Sandbox != grade.SandboxOff, Strict: g.Sandbox == grade.SandboxRequired,
	})
	testgrade.Hide(tests, func(string) bool { return false })
	view.StepDone(ownTestsStep, time.Since(began), "")
	testgrade.Add(result, tests, l.Lab)
	view.CheckDone(result.Checks[len(result.Checks)-1])
}
