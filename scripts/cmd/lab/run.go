// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/services"
)

func runCommand() *cobra.Command {
	var dir, main string
	var solution bool
	var where clusterFlags
	command := &cobra.Command{
		Use: "run N", GroupID: groupPlayground, Short: "Run a lab's operator against the playground, with its own role",
		Long: "run installs the lab's API into the playground and runs its operator there until Ctrl-C, under an account with\n" +
			"exactly the rights that its markers ask for. It is the lecture's `make install run`. The operator's webhooks are\n" +
			"registered, and it finds the services of its lab. --dir without N is an operator of no lab.\n" +
			"With --cluster it runs on this machine, too, against a kind cluster or one of your kubeconfig, whose Services then lead\n" +
			"here. Afterwards everything that was installed there is removed.",
		Args: func(command *cobra.Command, args []string) error {
			if dir != "" && len(args) == 0 {
				return nil
			}
			return exactlyOneLab(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			lab := labOf(here, dir)
			if len(args) > 0 {
				chosen, err := (&choiceFlags{dir: dir, main: main, solution: solution}).choose(args[0])
				if err != nil {
					return err
				}
				lab, dir = chosen.Lab, chosen.Dir
			}
			if where.embedded() {
				return run(command.Context(), here, lab, dir, main)
			}
			return runElsewhere(command.Context(), here, where, lab, dir, main)
		},
	}
	command.Flags().Var((*cli.Folder)(&dir), "dir", "a Go module of kubebuilder's layout, instead of the lab's folder here")
	command.Flags().StringVar(&main, "main", "", mainUsage)
	command.Flags().BoolVar(&solution, "solution", false, "the solution, instead of the lab")
	cli.Exclusive(command, "dir", "solution")
	where.registerCluster(command, "the playground")
	return command
}

// labOf is the lab to which a folder of the checkout belongs, or nil.
func labOf(here *checkout.Checkout, dir string) *manifest.Lab {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	for i := range here.Labs.Labs {
		if lab := &here.Labs.Labs[i]; dir == here.Dir(lab) || dir == here.SolutionDir(lab) {
			return lab
		}
	}
	return nil
}

// run builds and installs what is in a folder, and runs it until the user ends it or it ends itself. The lab may be
// nil.
func run(ctx context.Context, here *checkout.Checkout, lab *manifest.Lab, dir, main string) (err error) {
	workshop, manifests, err := prepareRun(ctx, here, dir, main)
	if err != nil {
		return err
	}
	scope := workshop.Scope
	defer func() { err = errors.Join(err, scope.Close()) }()
	playground := here.Playground()
	// A playground keeps what it has. A new one has a node only for a lab that needs Pods: it starts sooner without.
	node, exists := playground.WithNode()
	if !exists {
		node = lab != nil && lab.NeedsNode(lab.Stage)
	}
	if _, err := up(ctx, here, node); err != nil {
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
	environment, closeServices, err := serveServices(lab, playground.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServices()) }()
	way := local.ByEgress(playground.Egress())
	if status, err := playground.Status(ctx); err == nil && status.HasNode() {
		way = local.ByNode(playground.Egress(), embedded.MachineIP)
	}
	on := local.New(&stage.Cluster{Config: config}, way)
	what := installed(here, lab, workshop, manifests)
	if what.Aggregated {
		what.DataDir = serverData(playground, workshop.Dir)
	}
	registered := false
	err = operate(ctx, on, what, environment, func() error {
		if err := warnOfFinalizers(ctx, here, config, dir, os.Stderr); err != nil {
			return err
		}
		tell(here, manifests, environment)
		registered = manifests.HasWebhooks()
		return nil
	})
	if errors.Is(err, egress.ErrTaken) {
		return errRuns
	}
	if registered {
		fmt.Fprintln(os.Stderr, "Its webhooks are still registered, and nothing answers them: with failurePolicy Fail, "+
			"the requests that they match are refused until you run it again.")
	}
	return err
}

// operate installs an operator and runs it until the user ends it or it ends itself. begins is called before it starts.
func operate(ctx context.Context, on stage.Stage, what stage.Submission, environment []string, begins func() error) (err error) {
	installed, err := on.Install(ctx, what, stage.Gateway{Environment: environment})
	if err != nil {
		return err
	}
	operator, err := installed.Prepare(ctx, waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Close()) }()
	if err := begins(); err != nil {
		return err
	}
	var saves <-chan save // none
	if what.Aggregated {
		if saves, err = watchFolder(ctx, what.Dir, buildWindow); err != nil {
			return err
		}
	}
	started, err := operator.Start(os.Stdout)
	for err == nil {
		var again bool
		if again, err = attend(ctx, on, what.Workshop, started, saves); err != nil || !again {
			return err
		}
		if started, err = replace(operator, started, func() error { return what.AskFlags(ctx) }); err != nil && ctx.Err() != nil {
			return nil // the user ended it, and the old one has ended
		}
	}
	return err
}

// installed is what run installs: the submission of a lab, or of none (nil).
func installed(
	here *checkout.Checkout, lab *manifest.Lab, workshop *submission.Workshop, manifests *submission.Manifests,
) stage.Submission {
	what := stage.Submission{Workshop: workshop, Manifests: manifests, Webhooks: true, ControlPlane: here.ControlPlane.Path}
	if lab != nil {
		what.Aggregated, what.Workloads, what.Conversion = lab.Aggregated, lab.Node, lab.Extension != nil
	}
	return what
}

// replace ends what runs, and starts what was built, as soon as it was prepared for.
func replace(operator stage.Operator, old stage.Instance, prepare func() error) (stage.Instance, error) {
	if server, ok := operator.(stage.Replacer); ok {
		return server.Replace(old, os.Stdout, prepare)
	}
	if err := errors.Join(prepare(), old.Stop(stage.StopGrace)); err != nil {
		return nil, err
	}
	return operator.Start(os.Stdout)
}

// attend waits until an operator has ended, or was ended by the user. With saves it builds the program at each, and
// returns so that the one that runs is replaced; one that ended by itself, or does not compile, waits for the next
// save.
func attend(
	ctx context.Context, on stage.Stage, workshop *submission.Workshop, started stage.Instance, saves <-chan save,
) (again bool, err error) {
	done := started.Done()
	for {
		select {
		case <-done:
			ended := fmt.Errorf("the operator ended by itself: %s", stage.Ending(started.Err()))
			if saves == nil {
				return false, ended
			}
			fmt.Fprintf(os.Stderr, "%v. Save a file to start it again, Ctrl-C to end.\n", ended)
			done = nil
		case <-on.Cluster().Lost:
			return false, errors.Join(existing.ErrLost, started.Stop(stage.StopGrace))
		case <-ctx.Done():
			return false, started.Stop(stage.StopGrace)
		case made := <-saves:
			if made.err != nil {
				return false, errors.Join(made.err, started.Stop(stage.StopGrace))
			}
			began := time.Now()
			made, err := rebuild(ctx, workshop, made, saves)
			switch {
			case made.err != nil:
				return false, errors.Join(made.err, started.Stop(stage.StopGrace))
			case ctx.Err() != nil:
				continue
			case err != nil:
				printUnbuilt(os.Stderr, made.file, err)
				continue
			}
			fmt.Fprintf(os.Stderr, "%s was saved: built in %.1f s, starting again\n", made.file, time.Since(began).Seconds())
			return true, nil
		}
	}
}

// rebuild builds what was saved. Another save ends the build, and begins it again: an editor may write a file in
// several steps, of which the first is not worth a message of the compiler. made is the save that was built last, or
// why nothing more can be told of saves.
func rebuild(ctx context.Context, workshop *submission.Workshop, first save, saves <-chan save) (made save, err error) {
	for made = first; made.err == nil; {
		build, cancel := context.WithCancelCause(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = workshop.Rebuild(build)
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

// printUnbuilt says why what was saved can't be run. What ran before goes on.
func printUnbuilt(w io.Writer, file string, err error) {
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

// serverData is where the server of a folder stores, as long as the playground exists. Each folder has its own: how one
// stores, another can't read.
func serverData(playground *embedded.Playground, dir string) string {
	return filepath.Join(playground.Dir, "server-data", fmt.Sprintf("%s-%x", filepath.Base(dir), crc32.ChecksumIEEE([]byte(dir))))
}

// unregisterServers removes the APIServices of a server that was killed together with its lab run: while one is
// registered, no namespace can be deleted. Those of one that runs stay.
func unregisterServers(ctx context.Context, playground *embedded.Playground) error {
	unlock, err := lockRun(playground)
	if errors.Is(err, errRuns) {
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
		return fmt.Errorf("making a client: %w", err)
	}
	left, err := client.Resource(submission.APIServices).List(ctx, metav1.ListOptions{LabelSelector: existing.Label})
	if err != nil {
		return fmt.Errorf("looking for APIServices that a killed lab run has left: %w", err)
	}
	var registrations []*unstructured.Unstructured
	for i := range left.Items {
		registrations = append(registrations, &left.Items[i])
	}
	return install.Withdraw(ctx, client, registrations)
}

// prepareRun builds what is in a folder, and generates its manifests. The caller closes the workshop's scope.
func prepareRun(
	ctx context.Context, here *checkout.Checkout, dir, main string,
) (_ *submission.Workshop, _ *submission.Manifests, err error) {
	opened, err := submission.Open(dir, main)
	if err != nil {
		return nil, nil, err
	}
	controllerGen, err := here.ControllerGen(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := fetchModules(ctx, here, opened.Dir, ""); err != nil {
		return nil, nil, err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, nil, err
	}
	workshop := &submission.Workshop{
		Submission: opened, Scope: scope, ControllerGen: controllerGen, Cache: here.BuildCache(opened.Dir), Urgent: true,
	}
	if err := workshop.Build(ctx); err != nil {
		return nil, nil, errors.Join(err, scope.Close())
	}
	manifests, err := workshop.Generate(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, scope.Close())
	}
	return workshop, manifests, nil
}

func waiting(reason string) {
	fmt.Fprintf(os.Stderr, "Waiting: %s. Ctrl-C stops the command.\n", reason)
}

// runElsewhere is run at a cluster that others use as well. Its Services lead to this machine for as long as the
// operator runs.
func runElsewhere(ctx context.Context, here *checkout.Checkout, where clusterFlags, lab *manifest.Lab, dir, main string) (err error) {
	workshop, manifests, err := prepareRun(ctx, here, dir, main)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workshop.Scope.Close()) }()
	there, _, err := where.there(ctx, here)
	if err != nil {
		return err
	}
	there.Audit = nil // what it did is not needed
	on, err := there.Start(ctx, waiting)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(os.Stderr, "Removing what was installed in the cluster for it.")
		err = errors.Join(err, on.Close())
	}()
	groups := manifests.Groups()
	if lab != nil {
		groups = lab.Groups
	}
	environment, closeServices, err := serveServices(lab, workshop.Scope.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServices()) }()
	what := installed(here, lab, workshop, manifests)
	what.Groups = groups
	return operate(ctx, on, what, environment, func() error {
		fmt.Fprintf(os.Stderr, "The operator is running on this machine, against the cluster of the context %s, "+
			"under its own account; Ctrl-C stops it.\n", there.Context)
		if manifests.HasWebhooks() {
			fmt.Fprintln(os.Stderr, "Its webhooks are registered: the API server calls it, here on this machine.")
		}
		return nil
	})
}

// lockRun lets one operator at a time run at the playground. Two would have the account, its rights, the way to the
// webhooks and the freezer's file in common.
func lockRun(playground *embedded.Playground) (unlock func(), err error) {
	unlock, err = filelock.Try(filepath.Join(playground.Dir, "run.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, errRuns
	}
	if err != nil {
		return nil, fmt.Errorf("locking the playground: %w", err)
	}
	return unlock, nil
}

var errRuns = errors.New("another operator is running against the playground: stop it first, with Ctrl-C in its terminal")

// tell says what runs, and how to get there.
func tell(here *checkout.Checkout, manifests *submission.Manifests, environment []string) {
	fmt.Fprintln(os.Stderr, "The operator is running against the playground, under its own account; Ctrl-C stops it.")
	if manifests.HasWebhooks() {
		fmt.Fprintln(os.Stderr, "Its webhooks are registered: the API server calls it, here on this machine.")
	}
	fmt.Fprintf(os.Stderr, "In another terminal:\n%s", shellLines(here))
	for _, variable := range environment {
		for _, service := range services.All() {
			if url, ok := strings.CutPrefix(variable, service.Variable+"="); ok {
				fmt.Fprintf(os.Stderr, "curl %s%s     # the %s; it runs as long as the operator, and keeps its %s\n",
					url, service.Look, service.Name, service.Keeps)
			}
		}
	}
	fmt.Fprintln(os.Stderr)
}

// serveServices runs what the operator talks to besides the API server, and says in which variables it finds that.
// Their files are in a folder.
func serveServices(lab *manifest.Lab, folder string) (environment []string, end func() error, err error) {
	var closers []func() error
	end = func() error {
		var errs []error
		for _, closes := range closers {
			errs = append(errs, closes())
		}
		return errors.Join(errs...)
	}
	if lab == nil {
		return nil, end, nil
	}
	for _, service := range services.Named(lab.Services) {
		kept, err := service.Open(filepath.Join(folder, service.Name+".json"))
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		listener, err := listenAt(service.Address)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("listening for the %s: %w", service.Name, err), end())
		}
		server := &http.Server{Handler: kept, ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(listener) }() // ends with Close
		closers = append(closers, server.Close)
		environment = append(environment, service.Variable+"=http://"+listener.Addr().String())
	}
	return environment, end, nil
}

// listenAt listens at an address, or at any port of this machine if that is taken.
func listenAt(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, err
}
