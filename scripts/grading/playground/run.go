// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/filewatch"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/stage/shared"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/services"
)

// Run builds and installs the operator, and runs it on this machine against the playground until the context ends. The
// end of the context is not an error, but it is an error if the operator ends by itself, or if another one runs there.
// An error of the operator's module is a *submission.Problem. Run starts the playground if it does not run.
//
// The installed objects stay, except for the registration of an aggregated API server. Such a server is built and
// started again each time one of its files is saved.
func (o *Operator) Run(ctx context.Context) (err error) {
	builder, manifests, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, builder.Scope.Close()) }()
	playground := o.Checkout.Playground()
	// An existing playground stays as it is. A new one has a node only for a lab that needs Pods, because it starts faster
	// without a node.
	node, exists := playground.WithNode()
	if !exists {
		node = o.Lab != nil && o.Lab.NeedsNode(o.Lab.Stage)
	}
	if _, err := Up(ctx, o.Checkout, node); err != nil {
		return err
	}
	unlock, err := lockRun(playground)
	if err != nil {
		return err
	}
	defer unlock()
	config, err := playground.Config()
	if err != nil {
		return err
	}
	environment, closeServices, err := serveServices(o.Lab, playground.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServices()) }()
	route := local.ByEgress(playground.Egress())
	if status, err := playground.Status(ctx); err == nil && status.HasNode() {
		route = local.ByNode(playground.Egress(), embedded.MachineIP)
	}
	st := local.New(&stage.Cluster{Config: config}, route)
	what := o.submission(builder, manifests)
	if what.Aggregated {
		what.DataDir = serverData(playground, builder.Dir)
	}
	registered := false
	err = o.operate(ctx, st, what, environment, func() error {
		if err := warnOfFinalizers(ctx, o.Checkout, config, o.Dir, o.Err); err != nil {
			return err
		}
		o.printUsage(manifests, environment)
		registered = manifests.HasWebhooks()
		return nil
	})
	if errors.Is(err, egress.ErrTaken) {
		return errRunning
	}
	if registered {
		fmt.Fprintln(o.Err, "Its webhooks are still registered, and no program serves them: with failurePolicy Fail, "+
			"matching requests are refused until you run it again.")
	}
	return err
}

// RunShared is Run for a cluster that others use as well. find returns the cluster, and is called after the operator
// was built. The cluster's Services are routed to this machine for as long as the operator runs. Then RunShared removes
// everything that it has installed there.
func (o *Operator) RunShared(ctx context.Context, find func(context.Context) (shared.Cluster, error)) (err error) {
	builder, manifests, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, builder.Scope.Close()) }()
	cluster, err := find(ctx)
	if err != nil {
		return err
	}
	cluster.Audit = nil // no audit log is needed
	st, err := cluster.Start(ctx, o.printWaiting)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(o.Err, "Removing what was installed in the cluster.")
		err = errors.Join(err, st.Close())
	}()
	environment, closeServices, err := serveServices(o.Lab, builder.Scope.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServices()) }()
	what := o.submission(builder, manifests)
	what.Groups = manifests.Groups()
	if o.Lab != nil {
		what.Groups = o.Lab.Groups
	}
	return o.operate(ctx, st, what, environment, func() error {
		fmt.Fprintf(o.Err, "The operator is running on this machine, against the cluster of the context %s, "+
			"under its own account; Ctrl-C stops it.\n", cluster.Context)
		if manifests.HasWebhooks() {
			fmt.Fprintln(o.Err, "Its webhooks are registered: the API server calls the operator on this machine.")
		}
		return nil
	})
}

// prepare builds the operator, and generates its manifests. The caller closes the builder's scope.
func (o *Operator) prepare(ctx context.Context) (_ *submission.Builder, _ *submission.Manifests, err error) {
	opened, err := submission.Open(o.Dir, o.Main)
	if err != nil {
		return nil, nil, err
	}
	controllerGen, err := o.Checkout.ControllerGen(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := o.Fetch(ctx, opened.Dir, ""); err != nil {
		return nil, nil, err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, nil, err
	}
	builder := &submission.Builder{
		Submission: opened, Scope: scope, ControllerGen: controllerGen,
		Cache: o.Checkout.BuildCache(opened.Dir), Urgent: true,
	}
	if err := builder.Build(ctx); err != nil {
		return nil, nil, errors.Join(err, scope.Close())
	}
	manifests, err := builder.Generate(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, scope.Close())
	}
	return builder, manifests, nil
}

// submission returns the parts of the operator that are installed.
func (o *Operator) submission(builder *submission.Builder, manifests *submission.Manifests) stage.Submission {
	what := stage.Submission{
		Builder: builder, Manifests: manifests, Webhooks: true, ControlPlane: o.Checkout.ControlPlane.Path,
	}
	if o.Lab != nil {
		what.Aggregated, what.Workloads, what.Conversion = o.Lab.Aggregated, o.Lab.Node, o.Lab.Extension != nil
	}
	return what
}

// operate installs an operator and runs it until the user ends it or it ends itself. It calls beforeStart before the
// operator starts.
func (o *Operator) operate(
	ctx context.Context, st stage.Stage, what stage.Submission, environment []string, beforeStart func() error,
) (err error) {
	installed, err := st.Install(ctx, what, stage.Gateway{Environment: environment})
	if err != nil {
		return err
	}
	operator, err := installed.Prepare(ctx, o.printWaiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Close()) }()
	if err := beforeStart(); err != nil {
		return err
	}
	var saves <-chan filewatch.Save // none
	if what.Aggregated {
		if saves, err = filewatch.Watch(ctx, what.Dir, filewatch.BuildWindow); err != nil {
			return err
		}
	}
	started, err := operator.Start(o.Out)
	for err == nil {
		var again bool
		if again, err = o.supervise(ctx, st, what.Builder, started, saves); err != nil || !again {
			return err
		}
		started, err = o.replace(operator, started, func() error { return what.AskFlags(ctx) })
		if err != nil && ctx.Err() != nil {
			return nil // the user ended the run, and the old operator has ended
		}
	}
	return err
}

// supervise waits until an operator has ended, or was ended by the user. With saves, it rebuilds the program after each
// save, and returns so that the caller replaces the running one. If the program ended by itself or does not compile, it
// waits for the next save.
func (o *Operator) supervise(
	ctx context.Context, st stage.Stage, builder *submission.Builder, started stage.Instance, saves <-chan filewatch.Save,
) (again bool, err error) {
	done := started.Done()
	for {
		select {
		case <-done:
			ended := fmt.Errorf("the operator ended by itself: %s", stage.Ending(started.Err()))
			if saves == nil {
				return false, ended
			}
			fmt.Fprintf(o.Err, "%v. Save a file to restart it, or press Ctrl-C to stop.\n", ended)
			done = nil
		case <-st.Cluster().Lost:
			return false, errors.Join(existing.ErrLost, started.Stop(stage.StopGrace))
		case <-ctx.Done():
			return false, started.Stop(stage.StopGrace)
		case made := <-saves:
			if made.Err != nil {
				return false, errors.Join(made.Err, started.Stop(stage.StopGrace))
			}
			began := time.Now()
			made, err := rebuild(ctx, builder, made, saves)
			switch {
			case made.Err != nil:
				return false, errors.Join(made.Err, started.Stop(stage.StopGrace))
			case ctx.Err() != nil:
				continue
			case err != nil:
				printBuildError(o.Err, made.File, err)
				continue
			}
			fmt.Fprintf(o.Err, "%s was saved: built in %.1f s, restarting the operator\n",
				made.File, time.Since(began).Seconds())
			return true, nil
		}
	}
}

// rebuild builds the program after a save. Another save cancels the build and restarts it: an editor may write a file
// in several steps, and a compiler error after the first would be misleading. made is the last save that was built, or
// the error that prevents further reports of saves.
func rebuild(
	ctx context.Context, builder *submission.Builder, first filewatch.Save, saves <-chan filewatch.Save,
) (made filewatch.Save, err error) {
	for made = first; made.Err == nil; {
		build, cancel := context.WithCancelCause(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = builder.Rebuild(build)
		}()
		select {
		case <-ended:
			cancel(nil)
			return made, err
		case made = <-saves:
			cancel(errSaved)
			<-ended
		}
	}
	return made, nil
}

// errSaved cancels a build during which a file was saved.
var errSaved = errors.New("a file was saved")

// replace prepares the start of the new program, stops the old one, and starts the new one.
func (o *Operator) replace(
	operator stage.Operator, old stage.Instance, prepare func() error,
) (stage.Instance, error) {
	if server, ok := operator.(stage.Replacer); ok {
		return server.Replace(old, o.Out, prepare)
	}
	if err := errors.Join(prepare(), old.Stop(stage.StopGrace)); err != nil {
		return nil, err
	}
	return operator.Start(o.Out)
}

// printBuildError prints why the program can't be built after a save. The old program keeps running.
func printBuildError(w io.Writer, file string, err error) {
	problem, ok := errors.AsType[*submission.Problem](err)
	if !ok {
		fmt.Fprintf(w, "%s was saved: %v\n", file, err)
		return
	}
	fmt.Fprintf(w, "%s was saved: %s\n", file, problem.Reason)
	for _, d := range problem.Diagnostics {
		fmt.Fprintf(w, "    %s\n", strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
	}
}

// printUsage prints what is running, and how to reach it.
func (o *Operator) printUsage(manifests *submission.Manifests, environment []string) {
	fmt.Fprintln(o.Err, "The operator is running against the playground, under its own account; Ctrl-C stops it.")
	if manifests.HasWebhooks() {
		fmt.Fprintln(o.Err, "Its webhooks are registered: the API server calls the operator on this machine.")
	}
	fmt.Fprintf(o.Err, "In another terminal:\n%s", ShellLines(o.Checkout))
	for _, variable := range environment {
		for _, service := range services.All() {
			if url, ok := strings.CutPrefix(variable, service.Variable+"="); ok {
				fmt.Fprintf(o.Err, "curl %s%s     # the %s; it runs as long as the operator, and keeps its %s\n",
					url, service.OverviewPath, service.Name, service.Contents)
			}
		}
	}
	fmt.Fprintln(o.Err)
}

// printWaiting prints what a step waits for.
func (o *Operator) printWaiting(reason string) {
	fmt.Fprintf(o.Err, "Waiting: %s. Ctrl-C stops the command.\n", reason)
}

// lockRun allows only one operator at a time to run against the playground. Two would share the account, its rights,
// the route to the webhooks and the freezer's file.
func lockRun(playground *embedded.Playground) (unlock func(), err error) {
	unlock, err = filelock.Try(filepath.Join(playground.Dir, "run.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, errRunning
	}
	if err != nil {
		return nil, fmt.Errorf("locking the playground: %w", err)
	}
	return unlock, nil
}

var errRunning = errors.New("another operator is running against the playground: " +
	"stop it first, with Ctrl-C in its terminal")

// serverData returns the data folder of the server in a folder, which exists as long as the playground. Each server has
// its own, because another server can't read its format.
func serverData(playground *embedded.Playground, dir string) string {
	name := fmt.Sprintf("%s-%x", filepath.Base(dir), crc32.ChecksumIEEE([]byte(dir)))
	return filepath.Join(playground.Dir, "server-data", name)
}

// unregisterServers removes the APIServices of a server that was killed together with its lab run: while they are
// registered, no namespace can be deleted. It keeps those of a running server.
func unregisterServers(ctx context.Context, playground *embedded.Playground) error {
	unlock, err := lockRun(playground)
	if errors.Is(err, errRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	config, err := playground.Config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	left, err := client.Resource(submission.APIServices).List(ctx, metav1.ListOptions{LabelSelector: existing.Label})
	if err != nil {
		return fmt.Errorf("listing the APIServices of a killed lab run: %w", err)
	}
	var registrations []*unstructured.Unstructured
	for i := range left.Items {
		registrations = append(registrations, &left.Items[i])
	}
	return install.Withdraw(ctx, client, registrations)
}
