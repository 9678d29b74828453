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
	"regexp"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/submission"
)

// Options say what to certify.
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

	// What all of a run share: control planes for mutants, manifests of types and markers that were seen before, and what
	// the solution's come from.
	pool      *own.Pool
	generated string
	origin    string
	// proven is what need not be graded again; nil: nothing.
	proven *proven
	// choice are the mutants that are graded; nil: all.
	choice *choice
}

// share makes what all of a run share, in its folder. The pool is for the caller to close.
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

// atOnce is how many submissions are graded at once. Where the submission is a Pod, add-ons and Pods that start keep a
// processor busy and two are enough for two cores; where only its children are Pods, two left both cores idle for 40 %
// of the time.
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

// tortured reports whether the solution is tortured. Nothing between what is deployed and the API server could crash
// it.
func (o *Options) tortured() bool { return o.Lab.Operator && !o.deployed() }

// partly are the steps after which a student has points, and not yet all: a submission in which so much is done is
// graded, too.
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

// remember opens what is proven, unless it is luck that is looked for.
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
	// What is not there can't be compared later, so nothing that is graded without it is remembered.
	by, complete, err := o.graders()
	if err != nil || !complete {
		return err
	}
	o.proven, err = newProven(folder, o.Lab, by)
	return err
}

// graders are what grades the lab. complete is false if a part of it is not there.
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

// sameOrigin reports whether the manifests of the submission in a folder come from the same as the solution's. If
// nobody knows, they don't.
func (o *Options) sameOrigin(dir string) bool {
	have, err := origin(dir)
	return err == nil && have == o.origin && have != ""
}

// origin is what manifests are made from.
func origin(dir string) (string, error) {
	opened, err := submission.Open(dir, "")
	if err != nil {
		return "", err
	}
	return opened.Origin()
}

// solutionName and tortureName are those of the candidates that are the solution as it is: it is graded, and it is
// tortured.
const (
	skeletonName = "skeleton"
	solutionName = "solution"
	tortureName  = "torture"
)

// stepsName is that of the candidate in which the first steps are done.
func stepsName(done int) string { return fmt.Sprintf("steps-1-to-%d", done) }

// candidate is a submission whose grade is known before.
type candidate struct {
	name string
	// misconception is what a mutant believes; empty for skeleton and solution.
	misconception string
	// design is what is different about a right design; empty for all others.
	design string
	// done is the last step that is done in a submission of which only the first steps are; 0 for all others.
	done int
	// base says that a design does without the lab's extension, whose checks must be skipped then.
	base        bool
	expectation mutant.Expectation
	// torture says whether it is tortured, too, and how it falls: a regular expression, or empty if it must survive.
	torture  bool
	falls    string
	ungraded bool // only tortured
	// first is the check that runs before all others, as in grade.Options.
	first string
	// lay puts the submission into an empty folder. changed says that its manifests may have to be made anew.
	lay     func(ctx context.Context, dir string) error
	changed bool
	// source is a folder that alone decides what lay puts there, for a submission that takes seconds to lay out. Default:
	// none.
	source string
}

// result is how a candidate was graded.
type result struct {
	// deviations say how the grade deviates from what it must be, and before how it did so at the first of two attempts.
	deviations, before []string
	// proven says that it was not graded, as it is known that it is graded as it must be.
	proven bool
	// hindered says why it has no grade if the machine is the reason, which happens only under a load.
	hindered string
}

// times is how often a candidate is graded.
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
		deviations, hindered, err := o.grade(ctx, c, dir)
		r.hindered = hindered
		return deviations, err
	})
	if err == nil && len(r.deviations) == 0 && len(r.before) == 0 && !r.proven && known != "" {
		err = o.proven.keep(known)
	}
	return r, err
}

func (c candidate) layOut(ctx context.Context, dir string) error {
	if err := c.lay(ctx, dir); err != nil {
		return fmt.Errorf("laying out %s: %w", c.name, err)
	}
	return nil
}

// attempt grades a submission. A mutant that was not graded as it must be gets a second attempt, and before is then how
// the first one deviated: some mistakes are races, a certification is two hundred grades, and that it is found is what
// counts. What is right gets none: a student has none.
func (c candidate) attempt(single bool, grade func(attempt int) ([]string, error)) (deviations, before []string, err error) {
	deviations, err = grade(1)
	if err == nil && len(deviations) > 0 && c.misconception != "" && !single {
		before = deviations
		deviations, err = grade(2)
	}
	return deviations, before, err
}

// verdict is the line of a submission, and below it how it deviates from what it must be, or did so at the first
// attempt.
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
	case r.hindered != "":
		word, deviations = "none", []string{"it has no grade: " + r.hindered}
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
	case c.torture && c.falls != "":
		expected = "full marks, and falls to the torture"
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
		fmt.Fprintf(&out, "             it is right, and its design is another: %s\n", c.design)
	}
	return out.String()
}

// Has reports whether the lab has all submissions that Only names.
func (o *Options) Has() bool {
	_, err := o.candidates()
	return err == nil
}

// Names returns the names of all submissions that certify a lab.
func Names(here *checkout.Checkout, lab *manifest.Lab) (names []string, err error) {
	o := Options{Checkout: here, Lab: lab}
	all, err := o.candidates()
	for _, c := range all {
		names = append(names, c.name)
	}
	return names, err
}

// candidates are skeleton, solution, right designs and mutants, or those of them that were asked for.
func (o *Options) candidates() ([]candidate, error) {
	source := o.SolutionDir(o.Lab)
	list, err := mutant.Load(source)
	if err != nil {
		return nil, err
	}
	copySolution := func(_ context.Context, dir string) error { return os.CopyFS(dir, os.DirFS(source)) }
	candidates := []candidate{
		{name: skeletonName, source: source, expectation: list.Skeleton, lay: func(ctx context.Context, dir string) error {
			// Generated, not taken from labs/: a student may have worked there.
			return skeleton.Generator{Root: o.Root, ControllerGen: o.ControllerGen}.Generate(ctx, o.Lab.Name, dir)
		}},
		{name: solutionName, lay: copySolution},
	}
	if o.tortured() {
		candidates = append(candidates, candidate{name: tortureName, ungraded: true, torture: true, lay: copySolution})
	}
	for _, done := range o.partly() {
		candidates = append(candidates, candidate{
			name: stepsName(done), source: source, done: done,
			lay: func(ctx context.Context, dir string) error {
				return skeleton.Generator{Root: o.Root, ControllerGen: o.ControllerGen, Done: done}.Generate(ctx, o.Lab.Name, dir)
			},
		})
	}
	right, err := designs(o.Root, o.Lab.Name)
	if err != nil {
		return nil, err
	}
	for _, d := range right {
		candidates = append(candidates, candidate{
			name: d.name, design: d.Design, base: d.Base, torture: d.Torture, changed: true,
			lay: func(ctx context.Context, dir string) error { return errors.Join(copySolution(ctx, dir), d.apply(dir)) },
		})
	}
	for _, m := range list.Mutants {
		candidates = append(candidates, candidate{
			name: m.Name, misconception: m.Misconception, expectation: m.Expectation, torture: m.Torture != "", falls: m.Torture, changed: true,
			lay: func(ctx context.Context, dir string) error { return errors.Join(copySolution(ctx, dir), m.Apply(dir)) },
		})
	}
	if len(o.Only) == 0 {
		return candidates, nil
	}
	var names []string
	for _, c := range candidates {
		names = append(names, c.name)
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("lab %s has no submission %q to certify; there are %s", o.Lab.Name, name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(candidates, func(c candidate) bool { return !slices.Contains(o.Only, c.name) }), nil
}

// grade grades one that is laid out, removes it, and says how the report deviates from what it must be, or why the
// machine prevented a grade.
func (o *Options) grade(ctx context.Context, c candidate, dir string) (all []string, hindered string, err error) {
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
		// Of a mutant it is known how it falls, on this bad day. A solution must survive every one, and has a control plane
		// of its own, as it has with a student.
		lease := o.pool.Lease()
		defer lease.Return()
		run.Seed, run.Start = mutantSeed, lease.Start
	}
	if !c.ungraded {
		result := grade.Run(ctx, run)
		// As the reason of such a run says, it is graded again.
		for again := 0; again < hinderedMost && o.Load == 0 && grade.Hindered(result); again++ {
			result = grade.Run(ctx, run)
		}
		if o.Load > 0 && grade.Hindered(result) {
			return nil, result.Reason, os.RemoveAll(dir)
		}
		if c.done > 0 {
			o.keepSteps(result, c.done)
		}
		if c.base {
			result.Checks = slices.DeleteFunc(result.Checks, func(c report.Check) bool { return c.Extension && c.Status == report.Skipped })
		}
		all = c.expectation.Deviations(result)
		if len(all) > 0 && c.first != "" {
			all = append(all, "its first check was "+c.first)
		}
	}
	// Our own must survive the scenes. A right design need not have thought of a mishap that is so rare.
	run.Scenes = c.design == ""
	if c.torture && len(all) == 0 && ctx.Err() == nil {
		all = tortureDeviations(grade.Torture(ctx, run, grade.RandomSchedules, func(protocol.Trial) {}), c.falls)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	return all, "", nil
}

// keepSteps removes the checks of later steps from a report, with their points, and the lab's own tests.
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

// regenerate makes the manifests of a changed copy of the solution, if they come from what was changed: whoever changed
// types or markers would have run `make generate manifests`.
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
		Lab: o.Lab, Dir: dir, ControllerGen: o.ControllerGen, Checks: o.Checks, Kubectl: o.ControlPlane.Path, OperatorLog: dir + ".log",
		Generated: o.generated,
		Start:     own.Start(func(ctx context.Context) (*embedded.Cluster, error) { return embedded.StartServer(ctx, o.ControlPlane) }),
	}
	switch {
	case o.deployed():
		run.System, run.Start = "linux", node.Start(o.WithNode, images.StoreOf(o.Root), o.ControlPlane.Path)
	case o.withNode():
		run.Start = node.Beside(o.WithNode)
	}
	return run
}

const mutantSeed = 1

// hinderedMost is how often a run is repeated that came to no grade because of the machine.
const hinderedMost = 2

// tortureDeviations compares what came of a torture with how the submission must fall, or that it must not.
func tortureDeviations(trials *grade.Trials, falls string) []string {
	failure := trials.Failure
	switch {
	case failure == nil && trials.Run.Outcome != report.Graded:
		return append([]string{fmt.Sprintf("the torture ended as %s: %s", trials.Run.Outcome, trials.Run.Reason)}, trials.Run.OperatorLog...)
	case failure == nil && falls != "":
		return []string{fmt.Sprintf("it survives the torture with seed %d, and must fall: %q", trials.Run.Seed, falls)}
	case failure != nil && falls == "", failure != nil && !regexp.MustCompile(falls).MatchString(failure.Observed):
		deviation := []string{fmt.Sprintf("in the torture with seed %d it falls to [%s]\n  expected: %s\n  observed: %s",
			trials.Run.Seed, failure.Schedule, failure.Expected, failure.Observed)}
		for _, entry := range failure.Timeline {
			deviation = append(deviation, "            "+entry.String())
		}
		return []string{strings.Join(deviation, "\n")}
	}
	return nil
}

// keepBusy starts the programs that compute, until the scope is closed.
func (o *Options) keepBusy(scope *process.Scope) error {
	for range o.Load {
		if _, err := scope.Start(process.Spec{Name: "the load", Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}}); err != nil {
			return err
		}
	}
	return nil
}
