// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/process"
)

// runner runs the commands. Their processes end with it.
type runner struct {
	Options
	scope *process.Scope
}

func newRunner(options Options) (*runner, error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	return &runner{Options: options, scope: scope}, nil
}

func (r *runner) Close() error { return r.scope.Close() }

// stopGrace is how long a command may take to clean up after its time limit.
const stopGrace = 30 * time.Second

// command runs a program, and shows its output.
func (r *runner) command(ctx context.Context, program string, args ...string) error {
	fmt.Fprintf(r.Out, "$ %s %s\n", filepath.Base(program), strings.Join(args, " "))
	started, err := r.scope.Start(process.Spec{
		Path: program, Args: args, Dir: r.Root, Stdout: r.Out, Stderr: r.Out,
		// The output is a log, so it has no colours and no lines that are redrawn.
		Env: append(os.Environ(), "NO_COLOR=1", "TERM=dumb"),
	})
	if err != nil {
		return err
	}
	select {
	case <-started.Done():
	case <-ctx.Done():
		started.Stop(stopGrace)
		return context.Cause(ctx)
	}
	if err := started.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
	}
	return nil
}

func (r *runner) cluster(ctx context.Context, args ...string) error {
	return r.command(ctx, r.Cluster, append(args, "--name", r.Name)...)
}

func (r *runner) create(ctx context.Context) error {
	from := "registry"
	if r.AirGap {
		from = "air-gap"
	}
	return r.cluster(ctx, "create", "--profile", "student", "--images", from, "--addons", strings.Join(known.Names(), ","))
}

// buildTime is how long it takes to build all images on two cores if only the control plane is compiled already.
const buildTime = 20 * time.Minute

// building returns how long it takes to build the missing images: 0 if there are none, and otherwise the time for all.
func (r *runner) building() (time.Duration, error) {
	catalogue, err := images.Load()
	if err != nil {
		return 0, err
	}
	found, err := images.StoreOf(r.Root).Find(catalogue.DefaultImages())
	if err != nil {
		return 0, err
	}
	if len(found) == len(catalogue.DefaultImages()) {
		return 0, nil
	}
	return buildTime, nil
}

func (r *runner) build(ctx context.Context) error {
	return r.command(ctx, r.Cluster, "images", "--build")
}

// createAgain runs create again, which finds nothing to do. Its duration is in the table, but has no limit.
func (r *runner) createAgain(ctx context.Context) error {
	before, err := docker.Output(ctx, "ps", "--no-trunc", "--quiet", "--filter", "label="+clusterLabel+r.Name)
	if err != nil {
		return err
	}
	if err := r.create(ctx); err != nil {
		return err
	}
	after, err := docker.Output(ctx, "ps", "--no-trunc", "--quiet", "--filter", "label="+clusterLabel+r.Name)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("the second run created other nodes: %s, want %s", strings.Fields(after), strings.Fields(before))
	}
	return r.cluster(ctx, "status")
}

func (r *runner) load(ctx context.Context) error         { return r.cluster(ctx, "load") }
func (r *runner) connectivity(ctx context.Context) error { return r.cluster(ctx, "test") }

// clusterLabel is the label that kind sets on each container of a cluster.
const clusterLabel = "io.x-k8s.kind.cluster="

// remove deletes the cluster, and checks that nothing of it is left.
func (r *runner) remove(ctx context.Context) error {
	if err := r.cluster(ctx, "delete"); err != nil {
		return err
	}
	left, err := docker.Output(ctx, "ps", "--all", "--quiet", "--filter", "label="+clusterLabel+r.Name)
	var failed *docker.Error
	switch {
	case errors.Is(err, docker.ErrMissing) || errors.As(err, &failed):
		// Either there is no engine yet, or the command has stopped the engine that it had started.
	case err != nil:
		return err
	case strings.TrimSpace(left) != "":
		return fmt.Errorf("these containers are left: %s", strings.Fields(left))
	}
	if _, err := os.Stat(docker.Kubeconfig(r.Root, r.Name)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the kubeconfig is left: %s", docker.Kubeconfig(r.Root, r.Name))
	}
	return nil
}

// explain shows the state of the cluster after a failed step, and keeps its logs.
func (r *runner) explain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	dir := filepath.Join(r.Root, "out", "e2e", "logs")
	_ = r.cluster(ctx, "status")
	if err := r.cluster(ctx, "export-logs", dir); err == nil {
		fmt.Fprintf(r.Out, "The cluster's logs are in %s.\n", dir)
	}
}

// admin returns the configuration of the cluster's administrator.
func (r *runner) admin() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", docker.Kubeconfig(r.Root, r.Name))
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	return config, nil
}

// poll calls try until it succeeds or the time is up. In the latter case it returns the last error.
func poll(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("not within %s: %w", patience, last)
	}
	return nil
}

// Table formats the result for a person, and for the last lines of a log.
func (r *Result) Table(out io.Writer) {
	var table bytes.Buffer
	var sum time.Duration
	for _, s := range r.Steps {
		state := "ok  "
		if s.Err != nil {
			state = "FAIL"
		}
		fmt.Fprintf(&table, "%s %7.1f s  %s\n", state, s.Took.Seconds(), s.Name)
		sum += s.Took
	}
	for _, name := range r.NotRun {
		fmt.Fprintf(&table, "not run, for lack of time: %s\n", name)
	}
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(&table, "skipped, because other labs were requested: %s\n", strings.Join(r.LeftOut, ", "))
	}
	fmt.Fprintf(&table, "     %7.1f s  in all\n", sum.Seconds())
	_, _ = out.Write(table.Bytes())
}
