// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
)

// grade grades a candidate that is laid out, and removes it. It returns the differences between the report and the
// expected grade, or the reason why the machine prevented a grade.
func (o *Options) grade(ctx context.Context, c candidate, dir string) (all []string, noGrade string, err error) {
	if c.changed {
		if err := o.regenerate(ctx, dir); err != nil {
			return nil, "", fmt.Errorf("generating the manifests of %s: %w", c.name, err)
		}
	}
	run := o.Run(dir)
	run.First = c.first
	if c.done > 0 || c.name == skeletonName {
		if run.NotStarted, err = skeleton.NotStarted(o.Root, o.Lab.Name, dir); err != nil {
			return nil, "", err
		}
	}
	if c.misconception != "" {
		// The expected failure of a mutant is known for this seed. A solution must pass with every seed, and gets a control
		// plane of its own, as a student's does.
		lease := o.pool.Lease()
		defer lease.Return()
		run.Seed, run.Start = mutantSeed, lease.Start
	}
	if !c.ungraded {
		result := grade.Run(ctx, run)
		// The reason of such a run asks the user to grade again.
		for again := 0; again < machineRetries && o.Load == 0 && result.MachineError; again++ {
			result = grade.Run(ctx, run)
		}
		if o.Load > 0 && result.MachineError {
			return nil, result.Reason, os.RemoveAll(dir)
		}
		if c.done > 0 {
			o.keepSteps(result, c.done)
		}
		if c.base {
			result.Checks = slices.DeleteFunc(result.Checks, func(c report.Check) bool {
				return c.Extension && c.Status == report.Skipped
			})
		}
		all = c.expectation.Deviations(result)
		if len(all) > 0 && c.first != "" {
			all = append(all, "its first check was "+c.first)
		}
	}
	// The solution must survive the scenes. A correct design need not handle a failure that is so rare.
	run.Scenes = c.design == ""
	if c.torture && len(all) == 0 && ctx.Err() == nil {
		all = tortureDeviations(grade.Torture(ctx, run, grade.RandomSchedules, func(protocol.Trial) {}), c.failsAs)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	return all, "", nil
}

// keepSteps removes from a report the checks of later steps, with their points, and the lab's own tests.
func (o *Options) keepSteps(result *report.Report, done int) {
	result.Checks = slices.DeleteFunc(result.Checks, func(graded report.Check) bool {
		listed, err := o.Lab.Check(graded.ID)
		return err != nil || listed.Step > done
	})
	result.Score, result.MaxScore = 0, 0
	for _, check := range result.Checks {
		result.Score, result.MaxScore = result.Score+check.Points, result.MaxScore+check.MaxPoints
	}
}

// regenerate generates the manifests of a changed copy of the solution again if the change affects them. A person who
// changes types or markers would run `make generate manifests`.
func (o *Options) regenerate(ctx context.Context, dir string) error {
	if o.sameOrigin(dir) {
		return nil
	}
	return skeleton.Generator{Root: o.Root, ControllerGen: o.ControllerGen}.Manifests(ctx, dir)
}

// Run returns the options that grade the submission in a folder, on a cluster of its own. It needs Checkout, Lab,
// ControllerGen, Checks and, if Pods run, WithNode.
func (o *Options) Run(dir string) grade.Options {
	run := grade.Options{
		Lab: o.Lab, Dir: dir, ControllerGen: o.ControllerGen,
		Checks: o.Checks, Kubectl: o.ControlPlane.Path, OperatorLog: dir + ".log",
		Generated: o.generated,
		Start: own.Start(func(ctx context.Context) (*embedded.Cluster, error) {
			return embedded.StartServer(ctx, o.ControlPlane)
		}),
	}
	switch {
	case o.deployed():
		run.System, run.Start = "linux", node.Start(o.WithNode, images.StoreOf(o.Root), o.ControlPlane.Path)
	case o.withNode():
		run.Start = node.StartForProcesses(o.WithNode)
	}
	return run
}

const mutantSeed = 1

// machineRetries is how often a run without a grade is repeated if the machine is the reason.
const machineRetries = 2

// tortureDeviations compares the result of a torture with the expected one: a failure that matches failsAs, or none.
func tortureDeviations(trials *grade.Trials, failsAs string) []string {
	failure := trials.Failure
	switch {
	case failure == nil && trials.Run.Outcome != report.Graded:
		return append(
			[]string{fmt.Sprintf("the torture ended as %s: %s", trials.Run.Outcome, trials.Run.Reason)},
			trials.Run.OperatorLog...,
		)
	case failure == nil && failsAs != "":
		return []string{fmt.Sprintf("it survives the torture with seed %d, and must fail with %q", trials.Run.Seed, failsAs)}
	case failure != nil && failsAs == "", failure != nil && !regexp.MustCompile(failsAs).MatchString(failure.Observed):
		deviation := []string{fmt.Sprintf("in the torture with seed %d it fails under [%s]\n  expected: %s\n  observed: %s",
			trials.Run.Seed, failure.Schedule, failure.Expected, failure.Observed)}
		for _, entry := range failure.Timeline {
			deviation = append(deviation, "            "+entry.String())
		}
		return []string{strings.Join(deviation, "\n")}
	}
	return nil
}
