// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package certify proves that the graders of a lab judge correctly: the skeleton fails the expected checks, the
// solution and all alternative correct designs get full marks, and each mutant fails exactly the checks that it names,
// for the reason that it names.
package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/submission"
)

// Options configure a certification.
type Options struct {
	*checkout.Checkout
	Lab *manifest.Lab
	// ControllerGen and Checks are as in grade.Options.
	ControllerGen, Checks string
	// Only limits the run to the submissions with these names. Three of the names are "skeleton", "solution" and "torture"
	// (which tortures the solution). Default: all.
	Only []string
	// Repeat is how many times each submission is graded. Default: once.
	Repeat int
	// Parallel is how many are graded at once. Default: one.
	Parallel int
	// Load is how many programs compute at the same time, to keep the machine busy. On a busy machine a solution gets full
	// marks, or it gets no grade and the machine is the reason. Default: none.
	Load int
	// All also grades what is proven. A submission is proven if it was graded as expected on this machine, and nothing
	// that decides its grade has changed since then. With Repeat or Load all submissions are graded. Default: proven
	// submissions are not graded again.
	All bool
	// Harness identifies the code of the grader and of the checks. When it changes, proven submissions are graded again.
	// Default: the digests of the running program and of the checks' program.
	Harness string
	// Proven is the folder with the records of proven submissions. Default: that of this user, which all checkouts share.
	Proven string
	// Single gives mutants one attempt, like all other submissions. Default: two.
	Single bool
	// Soak is how many times the solution is graded. Each time but the first, another check runs before all others. The
	// other submissions are graded once. Default: once.
	Soak int
	// Out gets a line for each submission.
	Out io.Writer
	// WithNode starts an embedded cluster with a node, as a run of the lab gets it. A lab whose runs include Pods needs
	// it.
	WithNode func(context.Context, func(string)) (*embedded.Cluster, error)

	// The gradings of a run share a pool of control planes for mutants and the manifests that were generated before. They
	// also share the origin of the solution's manifests.
	pool      *own.Pool
	generated string
	origin    string
	// proven has the submissions that need not be graded again. It is nil if all must be graded.
	proven *proven
	// choice has the mutants that are graded. It is nil if all are graded.
	choice *choice
}

// share sets up what all gradings of a run share, in the folder of the run. The caller must close the pool.
func (o *Options) share(dir string) (err error) {
	if o.origin, err = origin(o.SolutionDir(o.Lab)); err != nil {
		return err
	}
	o.generated = filepath.Join(dir, "generated")
	o.pool, err = o.NewPool()
	return err
}

// NewPool makes a pool of clusters for runs of the lab. Each run takes the cluster of an earlier one, reset to its
// initial state. The caller must close the pool.
func (o *Options) NewPool() (*own.Pool, error) {
	switch {
	case !o.withNode():
		return own.NewPool(o.ControlPlane), nil
	case o.WithNode == nil:
		return nil, fmt.Errorf("in runs of %s Pods run, and nothing here starts a cluster with a node", o.Lab.Name)
	case o.deployed():
		return node.NewPool(o.WithNode, images.StoreOf(o.Root), o.ControlPlane.Path), nil
	}
	return node.NewPoolForProcesses(o.WithNode), nil
}

// atOnce returns how many submissions are graded at once. If the submission is a Pod, starting add-ons and Pods keep a
// processor busy, and two gradings are enough for two cores. If only its children are Pods, two gradings left both
// cores idle for 40 % of the time.
func (o *Options) atOnce() int {
	most := max(1, o.Parallel)
	switch {
	case o.deployed():
		return min(most, 2)
	case o.withNode():
		return min(most, 3)
	}
	return most
}

// deployed reports whether the lab's checks deploy the submission.
func (o *Options) deployed() bool { return o.Lab.Stage == manifest.Deployed }

// tortured reports whether the solution is tortured. A deployed solution is not, since no component between it and the
// API server could crash it.
func (o *Options) tortured() bool { return o.Lab.Operator && !o.deployed() }

// partly returns the steps after which a student has some of the points, but not all. A submission with only these
// steps done is graded, too.
func (o *Options) partly() (steps []int) {
	for done := 1; done < o.Lab.Steps(); done++ {
		if slices.ContainsFunc(o.Lab.Checks, func(c manifest.Check) bool { return c.Step == done }) {
			steps = append(steps, done)
		}
	}
	return steps
}

// withNode reports whether a run's cluster has a node.
func (o *Options) withNode() bool { return o.Lab.NeedsNode(o.Lab.Stage) }

// remember opens the records of proven submissions, unless the run looks for flaky grades.
func (o *Options) remember() error {
	if o.Load > 0 || o.Repeat > 1 {
		return nil
	}
	folder := o.Proven
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("looking for the user's cache folder, which has what is proven: %w", err)
		}
		folder = filepath.Join(cache, "operator-labs", "proven")
	}
	// Missing parts can't be compared later, so grades without them are not remembered.
	by, complete, err := o.graders()
	if err != nil || !complete {
		return err
	}
	o.proven, err = newProven(folder, o.Lab, by)
	return err
}

// graders returns what grades the lab. complete is false if a part of it is missing.
func (o *Options) graders() (by graders, complete bool, err error) {
	by = graders{harness: o.Harness, programs: []string{o.ControlPlane.Path, o.ControllerGen}}
	if by.harness == "" {
		program, err := os.Executable()
		if err != nil {
			return by, false, err
		}
		by.programs = append(by.programs, program, o.Checks)
	}
	if !o.withNode() {
		return by, true, nil
	}
	complete, err = by.addNode(o.Checkout, o.Lab)
	return by, complete, err
}

// Grader identifies everything that grades the lab. As long as it is the same, a submission gets the same grade from
// the same seed. It needs Checkout, Lab, ControllerGen, Checks and Harness.
func (o *Options) Grader() (string, error) {
	by, complete, err := o.graders()
	if err != nil {
		return "", err
	}
	if !complete {
		by.programs = slices.DeleteFunc(by.programs, func(program string) bool {
			_, err := os.Stat(program)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	return by.digest(o.Lab)
}

// sameOrigin reports whether the manifests of the submission in a folder have the same origin as those of the solution.
// If the origin is unknown, it reports false.
func (o *Options) sameOrigin(dir string) bool {
	have, err := origin(dir)
	return err == nil && have == o.origin && have != ""
}

// origin identifies the files from which manifests are generated.
func origin(dir string) (string, error) {
	opened, err := submission.Open(dir, "")
	if err != nil {
		return "", err
	}
	return opened.Origin()
}

// result is the result of a candidate.
type result struct {
	// deviations are the differences from the expected grade. before has those of the first of two attempts.
	deviations, before []string
	// proven reports that the candidate was not graded, because it is known to get the expected grade.
	proven bool
	// noGrade is the reason why the machine prevented a grade. It is set only under a load.
	noGrade string
}

// times returns how often a candidate is graded.
func (o *Options) times(c candidate) int {
	if c.name == solutionName {
		return max(1, o.Repeat, o.Soak)
	}
	return max(1, o.Repeat)
}

// certify lays out a candidate, in folders whose names begin with dir, and grades it unless it is proven.
func (o *Options) certify(ctx context.Context, c candidate, dir string) (r result, err error) {
	known := ""
	r.deviations, r.before, err = c.attempt(o.Single, func(attempt int) ([]string, error) {
		dir := fmt.Sprintf("%s-%d", dir, attempt)
		if c.source == "" {
			if err := c.layOut(ctx, dir); err != nil {
				return nil, err
			}
		}
		if o.proven != nil {
			if known, err = o.proven.file(c, cmp.Or(c.source, dir)); err != nil {
				return nil, err
			}
		}
		if r.proven = !o.All && o.times(c) == 1 && known != "" && o.proven.has(known); r.proven {
			return nil, os.RemoveAll(dir)
		}
		if c.source != "" {
			if err := c.layOut(ctx, dir); err != nil {
				return nil, err
			}
		}
		deviations, noGrade, err := o.grade(ctx, c, dir)
		r.noGrade = noGrade
		return deviations, err
	})
	if err == nil && len(r.deviations) == 0 && len(r.before) == 0 && !r.proven && known != "" {
		err = o.proven.keep(known)
	}
	return r, err
}

// attempt grades a submission. A mutant with an unexpected grade gets a second attempt, and before then has the
// deviations of the first one. Some mistakes are races, and a certification has two hundred grades, so it is enough
// that one attempt finds the mutant. Correct submissions get one attempt, as a student does.
func (c candidate) attempt(
	single bool, grade func(attempt int) ([]string, error),
) (deviations, before []string, err error) {
	deviations, err = grade(1)
	if err == nil && len(deviations) > 0 && c.misconception != "" && !single {
		before = deviations
		deviations, err = grade(2)
	}
	return deviations, before, err
}

// verdict returns the line of a submission, followed by its deviations or those of the first attempt.
func (o *Options) verdict(c candidate, took time.Duration, r result) string {
	var out strings.Builder
	word, deviations := "ok  ", r.deviations
	switch {
	case len(deviations) > 0:
		word = "FAIL"
	case len(r.before) > 0:
		word, deviations = "2nd ", r.before
	case r.proven:
		word = "kept"
	case r.noGrade != "":
		word, deviations = "none", []string{"it has no grade: " + r.noGrade}
	}
	expected := "full marks"
	switch {
	case len(c.expectation.Fails) > 0:
		expected = "fails " + strings.Join(slices.Sorted(maps.Keys(c.expectation.Fails)), ", ")
	case c.expectation.Outcome != "":
		expected = "ends as " + c.expectation.Outcome
	case c.done > 0:
		expected = fmt.Sprintf("the checks of steps 1 to %d pass", c.done)
	case c.ungraded:
		expected = "survives"
	case c.torture && c.failsAs != "":
		expected = "full marks, and fails the torture"
	case c.torture:
		expected = "full marks, and survives the torture"
	}
	fmt.Fprintf(&out, "%s %5.1fs  %s %s: %s\n", word, took.Seconds(), o.Lab.Name, c.name, expected)
	for _, deviation := range deviations {
		fmt.Fprintf(&out, "             %s\n", strings.ReplaceAll(deviation, "\n", "\n             "))
	}
	if len(deviations) > 0 && c.misconception != "" {
		fmt.Fprintf(&out, "             its misconception: %s\n", c.misconception)
	}
	if len(deviations) > 0 && c.design != "" {
		fmt.Fprintf(&out, "             it is correct, with another design: %s\n", c.design)
	}
	return out.String()
}

// keepBusy starts the programs that put a load on the machine. They run until the scope is closed.
func (o *Options) keepBusy(scope *process.Scope) error {
	for range o.Load {
		if _, err := scope.Start(process.Spec{
			Name: "the load", Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"},
		}); err != nil {
			return err
		}
	}
	return nil
}
