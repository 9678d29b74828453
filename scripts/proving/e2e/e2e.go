// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// Options configure a run.
type Options struct {
	*checkout.Checkout
	// Cluster and Lab are the paths of the two commands.
	Cluster, Lab string
	// Name is the cluster's name. An existing cluster of that name is removed first, because an earlier run that was
	// killed may have left it.
	Name string
	// AirGap builds all images locally. Otherwise they come from a registry.
	AirGap bool
	// Only are the names of the labs that are graded. Default: all labs.
	Only []string
	// Times is how often each solution is graded. Default: once.
	Times int
	// Within is the time limit for all steps. A step that would exceed it is not started, and neither are later steps.
	// Default: no limit.
	Within time.Duration
	// Out gets the output of the commands, and a line for each step.
	Out io.Writer
}

// grades reports whether a lab is graded.
func (o *Options) grades(lab *manifest.Lab) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, lab.Name)
}

// step is one step of a run.
type step struct {
	name string
	// needs is how long the step takes on two cores. A step is not started if less time is left.
	needs time.Duration
	// limit is the time after which the step has hung.
	limit time.Duration
	// resumable steps may end when the time is up. That is no failure, and the next run continues with them.
	resumable bool
	do        func(context.Context) error
}

// Result has the results of the steps, in their order.
type Result struct {
	Steps []StepResult
	// NotRun are the steps that did not fit into the time limit. LeftOut are the labs that Options do not include.
	NotRun, LeftOut []string
}

// StepResult is the result of a step that was run.
type StepResult struct {
	Name string
	Took time.Duration
	Err  error
}

// Run runs all steps until one fails, and then always deletes the cluster. The error is that of the step, joined with
// that of the deletion if it failed as well. The result is valid in either case.
func Run(ctx context.Context, options Options) (result *Result, err error) {
	runner, err := newRunner(options)
	if err != nil {
		return &Result{}, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	steps, err := runner.steps()
	if err != nil {
		return &Result{}, err
	}
	result, err = runSteps(ctx, options, steps, runner.explain, step{
		name: "delete the cluster, and check that nothing is left", limit: 5 * time.Minute, do: runner.remove,
	})
	for i := range options.Labs.Labs {
		if !options.grades(&options.Labs.Labs[i]) {
			result.LeftOut = append(result.LeftOut, options.Labs.Labs[i].Name)
		}
	}
	return result, err
}

// runSteps runs the steps, and always the last one. It calls explain, which prints details, after a failed step.
func runSteps(
	ctx context.Context, options Options, steps []step, explain func(context.Context), last step,
) (result *Result, err error) {
	result = &Result{}
	started := time.Now()
	defer func() {
		// The objects of the run are removed even if a person has ended it.
		err = errors.Join(err, result.run(context.WithoutCancel(ctx), options.Out, last))
	}()
	for _, s := range steps {
		if options.Within > 0 && (len(result.NotRun) > 0 || time.Since(started)+s.needs > options.Within) {
			result.NotRun = append(result.NotRun, s.name)
			continue
		}
		if left := options.Within - time.Since(started); options.Within > 0 && s.resumable {
			s.limit = min(s.limit, left)
		}
		err := result.run(ctx, options.Out, s)
		if err != nil && s.resumable && ctx.Err() == nil && options.Within > 0 && time.Since(started) >= options.Within {
			result.Steps = result.Steps[:len(result.Steps)-1]
			result.NotRun = append(result.NotRun, s.name)
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				explain(context.WithoutCancel(ctx))
			}
			return result, err
		}
	}
	return result, nil
}

// run runs a step, and records its result.
func (r *Result) run(ctx context.Context, out io.Writer, s step) error {
	fmt.Fprintf(out, "\n=== %s\n", s.name)
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("timed out after %s", s.limit))
	defer cancel()
	start := time.Now()
	err := s.do(ctx)
	took := time.Since(start)
	r.Steps = append(r.Steps, StepResult{Name: s.name, Took: took, Err: err})
	if err != nil {
		fmt.Fprintf(out, "=== %s: failed after %.1f s\n", s.name, took.Seconds())
		return fmt.Errorf("%s: %w", s.name, err)
	}
	fmt.Fprintf(out, "=== %s: %.1f s\n", s.name, took.Seconds())
	return nil
}

// steps returns all steps, without the deletion at the end.
func (r *runner) steps() ([]step, error) {
	steps := []step{{name: "remove the leftovers of an earlier run", limit: 5 * time.Minute, do: r.remove}}
	if r.AirGap {
		building, err := r.building()
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{
			name: "build the images", needs: building, limit: 2 * time.Hour, resumable: true, do: r.build,
		})
	}
	steps = append(steps,
		step{name: "create the student cluster", needs: 4 * time.Minute, limit: 30 * time.Minute, do: r.create},
		step{name: "create it again: nothing changes", needs: 15 * time.Second, limit: 2 * time.Minute, do: r.createAgain},
		step{name: "load the course's images", needs: 20 * time.Second, limit: 10 * time.Minute, do: r.load},
		step{name: "test the network", needs: 90 * time.Second, limit: 15 * time.Minute, do: r.connectivity},
	)
	for i := range r.Labs.Labs {
		lab := &r.Labs.Labs[i]
		if !r.grades(lab) {
			continue
		}
		needs := 45 * time.Second
		if lab.Aggregated {
			needs = 150 * time.Second // its Pod ends and starts again ten times
		}
		for n := range max(1, r.Times) {
			name := "grade the solution of " + lab.Name
			if n > 0 {
				name += fmt.Sprintf(", time %d", n+1)
			}
			steps = append(steps, step{
				name: name, needs: needs, limit: 10 * time.Minute,
				do: func(ctx context.Context) error { return r.solution(ctx, lab) },
			})
		}
		steps = append(steps, step{
			name: "grade a wrong submission of " + lab.Name, needs: needs, limit: 10 * time.Minute,
			do: func(ctx context.Context) error { return r.wrong(ctx, lab) },
		})
	}
	return append(steps,
		step{
			name: "deploy an operator of each node, a DaemonSet", needs: 30 * time.Second, limit: 5 * time.Minute,
			do: r.daemonSet,
		},
		step{name: "invite two students", needs: 10 * time.Second, limit: 5 * time.Minute, do: r.invite},
		step{name: "test what a student may do", needs: 40 * time.Second, limit: 5 * time.Minute, do: r.tryAllowed},
		step{name: "test what a student may not do", needs: 30 * time.Second, limit: 5 * time.Minute, do: r.tryForbidden},
		step{name: "revoke the students", needs: 30 * time.Second, limit: 5 * time.Minute, do: r.revoke},
	), nil
}
