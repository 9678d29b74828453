// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lva.io/operators/clusters/openfiles"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

// open opens the submission and creates the folder in which the run works.
func (r *run) open() (*submission.Builder, error) {
	opened, err := submission.Open(r.Dir, r.Main)
	if err != nil {
		return nil, &verdict{outcome: report.NotBuilt, reason: err.Error()}
	}
	r.report.Submission.Module = opened.Module
	r.report.Submission.Go = opened.Go
	r.report.Submission.ControllerRuntime = opened.ControllerRuntime
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	return &submission.Builder{
		Submission: opened, Scope: scope, ControllerGen: r.ControllerGen, Cache: r.BuildCache, System: r.System,
		Generated: cmp.Or(r.Generated, r.BuildCache), Walled: r.Sandbox != SandboxOff,
		Strict: r.Sandbox == SandboxRequired,
	}, nil
}

// subject is the submission that the checks examine, installed in its cluster.
type subject struct {
	*connection
	builder   *submission.Builder
	cluster   *stage.Cluster
	installed stage.Installed
	// delivery is the image and the manifests that the checks deploy, in a lab whose stage is deployed. It is nil in all
	// others.
	delivery *stage.Delivery
	// rules are the rules of the operator's role.
	rules audit.Rules
	// groups are the API groups of the lab's kinds.
	groups []string
	// webhooks are the names of the submission's webhooks.
	webhooks []string
	// heldBack is true if the submission has started the lab's extension, whose version was held back.
	heldBack bool
}

// install installs the submission into the cluster. Its operator does not run yet.
func (r *run) install(
	ctx context.Context, st stage.Stage, builder *submission.Builder, manifests *submission.Manifests, links *connection,
) (*subject, error) {
	s := &subject{
		connection: links, builder: builder, cluster: st.Cluster(), rules: manifests.Rules(), groups: r.Lab.Groups,
		webhooks: manifests.WebhookNames(),
	}
	if r.Lab.Extension != nil {
		s.heldBack = manifests.HoldBack(r.Lab.Extension.Version)
	}
	target := stage.Submission{
		Builder: builder, Manifests: manifests, Name: r.Lab.Name, Groups: r.Lab.Groups,
		APIOnly: !r.Lab.Operator, Webhooks: r.Lab.Webhooks, Aggregated: r.Lab.Aggregated,
		Workloads: r.Lab.Node, ControlPlane: r.Kubectl,
	}
	err := r.step(ctx, st.Installing(), func(ctx context.Context) (_ string, err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, errInstall)
		defer cancel()
		s.installed, err = st.Install(ctx, target, links.gateway)
		return "", asVerdict(err, report.NotGenerated)
	})
	return s, err
}

// prepareWebhooks prepares a webhook server for the operator, also in labs that are not about webhooks: without a
// certificate, the operator's manager would not start. An operator with a fixed port may have to wait until another
// grading run releases it. A lab that is not about webhooks shows the step only in that case.
func (r *run) prepareWebhooks(ctx context.Context, s *subject) (launcher stage.Operator, err error) {
	const name = "prepare the webhooks"
	prepare := func(ctx context.Context, onWait func(string)) (err error) {
		launcher, err = s.installed.Prepare(ctx, onWait)
		return asVerdict(err, report.NotGenerated)
	}
	if r.Lab.Webhooks {
		err = r.step(ctx, name, func(ctx context.Context) (string, error) {
			return "", prepare(ctx, func(reason string) { r.View.StepProgress(name, reason) })
		})
		return launcher, err
	}
	var began time.Time
	err = prepare(ctx, func(reason string) {
		if began.IsZero() {
			began = time.Now()
			r.View.StepStarted(name)
		}
		r.View.StepProgress(name, reason)
	})
	if !began.IsZero() {
		r.View.StepDone(name, time.Since(began), "")
	}
	return launcher, err
}

// installTimeout is the time for the installation, which takes a tenth of a second, or some seconds with a Pod's
// image.
const installTimeout = 3 * time.Minute

var errInstall = fmt.Errorf("the API was not installed within %s", installTimeout)

// fetch downloads the modules that the submission needs.
func (r *run) fetch(ctx context.Context, builder *submission.Builder) (string, error) {
	modules := 0
	err := builder.Fetch(ctx, func(done, total int) {
		modules = done
		r.View.StepProgress(fetchModules, fmt.Sprintf("%d of %d modules", done, total))
	})
	if modules == 0 {
		return "all downloaded before", asVerdict(err, report.NotBuilt)
	}
	return fmt.Sprintf("%d modules", modules), asVerdict(err, report.NotBuilt)
}

// asVerdict turns a problem of the submission into an outcome of the run. A problem of the environment that the user
// can fix becomes the reason of a run that could not be graded.
func asVerdict(err error, outcome report.Outcome) error {
	if problem, ok := errors.AsType[*submission.Problem](err); ok {
		return &verdict{outcome: outcome, reason: problem.Reason, diagnostics: problem.Diagnostics}
	}
	if foreign, ok := errors.AsType[*install.ForeignObjectError](err); ok {
		return &verdict{outcome: report.Error, reason: foreign.Error()}
	}
	if environment, ok := errors.AsType[*submission.EnvironmentError](err); ok {
		return &verdict{outcome: report.Error, reason: environment.Reason}
	}
	if missing, ok := errors.AsType[*MissingWallsError](err); ok {
		return &verdict{outcome: report.Error, reason: missing.Error()}
	}
	if few, ok := errors.AsType[*openfiles.Error](err); ok {
		return &verdict{outcome: report.Error, reason: few.Error()}
	}
	return err
}

// prepare runs steps concurrently: it starts a cluster while it builds the submission and generates its manifests. A
// step that fails ends the steps that are listed after it, because a submission that does not build matters more than
// manifests that can't be generated from it. A failing generator therefore waits for the compiler, which may know the
// reason. It does not wait for long, because the first compilation of dependencies takes minutes.
func (r *run) prepare(
	ctx context.Context, builder *submission.Builder,
) (st stage.Stage, manifests *submission.Manifests, err error) {
	steps := []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"build", func(ctx context.Context) (string, error) {
			return "", asVerdict(builder.Build(ctx), report.NotBuilt)
		}},
		{"generate manifests", func(ctx context.Context) (note string, err error) {
			manifests, err = builder.Generate(ctx)
			return "", asVerdict(err, report.NotGenerated)
		}},
		{startCluster, func(ctx context.Context) (note string, err error) {
			onWait := func(reason string) { r.View.StepProgress(startCluster, reason) }
			if st, err = r.Start(ctx, onWait); err != nil {
				return "", asVerdict(err, report.Error)
			}
			r.report.Environment.Kubernetes = st.Cluster().Version
			return "Kubernetes " + st.Cluster().Version, nil
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
			return st, nil, err
		}
	}
	return st, manifests, nil
}

const (
	fetchModules = "fetch modules"
	startCluster = "start a cluster"
)

// buildGrace is long enough for the compiler to find a mistake in a submission whose dependencies are compiled.
const buildGrace = 15 * time.Second

var errAborted = errors.New("ended because another step failed")
