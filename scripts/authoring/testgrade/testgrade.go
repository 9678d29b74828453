// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// DefaultWithin is the time limit for all mutants together.
	DefaultWithin = 15 * time.Minute
	// DefaultParallel is how many mutants are tested at once.
	DefaultParallel = 2
	// rightLimit is the time limit for the tests of one package on a correct operator.
	rightLimit = 5 * time.Minute
	// On a mutant, tests may take several times as long as on the solution, since some of them wait for an event that
	// never happens. Tests that take longer have found the mutant.
	slower, atLeast = 4, 40 * time.Second
)

// Options configure the grading of tests.
type Options struct {
	Lab *manifest.Lab
	// Dir is the folder of the submission. Main is the package of its program in that folder. Empty: it is searched for.
	Dir, Main string
	// Solution is the folder of the lab's solution.
	Solution string
	// Assets is the folder with etcd, kube-apiserver and kubectl.
	Assets string
	// Walled runs each test program in a sandbox with a network of its own, as far as this machine supports that. Default:
	// the programs have all rights of the user.
	Walled bool
	// Strict starts no test program outside of this sandbox, and compiles none with files outside of the submission's
	// folder.
	Strict bool
	// Only limits the run to the mutants with these names, for tests of this package. Default: all.
	Only []string
	// Within is the time limit for all mutants together. Mutants that have not begun by then are not tested. Default:
	// DefaultWithin.
	Within time.Duration
	// Parallel is how many mutants are tested at once. Default: DefaultParallel.
	Parallel int
	// Decide ends the run as soon as it is certain whether enough mutants are found. The remaining mutants are not tested.
	// Default: all are.
	Decide bool
	// Known is the report of an earlier run, or nil. The run takes from it the results of the tests on the solution and on
	// the mutants. It also takes the result on the submission's operator, unless something that decides it has changed.
	Known *report.Tests
	// OnlyKnown runs no tests. A result that Known does not have is Unfinished.
	OnlyKnown bool
	// Progress is called with the mutant that is tested next, the number of mutants that are done, and the number of all
	// mutants. Default: no progress is reported.
	Progress func(what string, done, total int)
}

// grading is a run.
type grading struct {
	Options
	scope  *process.Scope
	report *report.Tests
	// base is the solution with the submission's tests.
	base   *submission.Submission
	tested []testedPackage
	// reach has the folders of the packages that each test program contains, by the folder of the tested package.
	reach map[string][]string
	// took is how long the tests of each package took on the solution.
	took map[string]time.Duration
}

// Run grades tests. It always returns a report, which has the outcome.
func Run(ctx context.Context, options Options) *report.Tests {
	options.Within, options.Parallel = cmp.Or(options.Within, DefaultWithin), cmp.Or(options.Parallel, DefaultParallel)
	if options.Progress == nil {
		options.Progress = func(string, int, int) {}
	}
	g := &grading{Options: options, report: Blank(&options), took: map[string]time.Duration{}}
	err := g.run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	problem, isProblem := errors.AsType[*submission.Problem](err)
	switch {
	case err == nil:
		g.report.Outcome, g.report.Reason = report.Graded, ""
	case ctx.Err() != nil:
		g.report.Outcome, g.report.Reason = report.Interrupted, "the run was interrupted: run it again"
	case isProblem:
		g.report.Outcome, g.report.Reason, g.report.Diagnostics = report.NotBuilt, problem.Reason, problem.Diagnostics
	case errors.Is(err, errLate):
		g.report.Outcome, g.report.Reason = report.TimedOut, fmt.Sprintf("not all mutants were tried within %s: "+
			"give `lab tests` more time with --within, or make the tests faster", g.Within)
	case errors.Is(err, errUnknown):
		g.report.Outcome, g.report.Reason = report.Unfinished, err.Error()
	case errors.Is(err, errNoTests):
		g.report.Outcome, g.report.Reason = report.NotBuilt, err.Error()
	default:
		g.report.Outcome, g.report.Reason = report.Error, err.Error()
	}
	if g.report.Count(report.MutantFound)+g.report.Count(report.MutantMissed) == 0 && err != nil {
		g.report.Mutants = nil // none was tried
	}
	g.report.Seconds = time.Since(g.report.Started).Seconds()
	return g.report
}

var errLate = errors.New("the time is up")

// run grades the tests, step by step.
func (g *grading) run(ctx context.Context) (err error) {
	original, err := submission.Open(g.Dir, g.Main)
	if err != nil {
		return &submission.Problem{Reason: err.Error()}
	}
	if g.scope, err = process.NewScope(process.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.scope.Close()) }()
	own, err := g.copied(original, "own", g.Main)
	if err != nil {
		return err
	}
	solution, err := submission.Open(g.Solution, "")
	if err != nil {
		return err
	}
	mutants, err := g.mutants(solution)
	if err != nil {
		return err
	}
	if g.base, err = g.copied(solution, "solution", ""); err != nil {
		return err
	}
	if g.tested, g.report.Notices, err = copyTests(own, g.base); err != nil {
		return err
	}
	if g.Lab.Extension != nil {
		if err := holdBack(g.base, g.Lab.Extension.Version); err != nil {
			return err
		}
	}
	if err := g.note(own); err != nil {
		return err
	}
	ownKnown, err := g.takeKnown()
	if err != nil {
		return err
	}
	if g.OnlyKnown && (!g.report.Known || !ownKnown) {
		return errUnknown
	}
	if !g.report.Known {
		if err := g.gradeOnSolution(ctx); err != nil {
			return err
		}
	}
	if !ownKnown {
		if err := g.gradeOnSubmission(ctx, own); err != nil {
			return err
		}
	}
	if g.report.Known {
		return nil
	}
	if g.reach, err = g.reached(ctx); err != nil {
		return err
	}
	return g.tryAll(ctx, mutants)
}

var errUnknown = errors.New("your tests, or what they test, have changed since they were graded")

// note records what decides the verdict: the submission, and the solution with its mutants and the submission's tests.
func (g *grading) note(own *submission.Submission) (err error) {
	if g.report.Digest, err = dirhash.HashDir(g.base.Dir, "", dirhash.Hash1); err != nil {
		return fmt.Errorf("reading the tests: %w", err)
	}
	if g.report.OwnDigest, err = dirhash.HashDir(own.Dir, "", dirhash.Hash1); err != nil {
		return fmt.Errorf("reading the submission: %w", err)
	}
	return nil
}

// takeKnown takes the results that still apply from an earlier report. It reports whether the result on the
// submission's operator is one of them. An earlier run without a verdict on the mutants does not count, unless the
// tests failed on the solution.
func (g *grading) takeKnown() (own bool, err error) {
	known := g.Known
	if known == nil || known.Digest != g.report.Digest || known.Want != g.report.Want || len(g.Only) > 0 {
		return false, nil
	}
	if known.Outcome == report.NotBuilt && known.Ours != nil && !known.Ours.Passed {
		g.report.Known, g.report.Ours = true, known.Ours
		return false, &submission.Problem{Reason: known.Reason}
	}
	if known.Outcome != report.Graded {
		return false, nil
	}
	g.report.Known, g.report.Notices, g.report.Ours, g.report.Mutants = true, known.Notices, known.Ours, known.Mutants
	if known.OwnDigest != g.report.OwnDigest {
		return false, nil
	}
	g.report.Own = known.Own
	return true, nil
}

// copied copies a module into the scope.
func (g *grading) copied(s *submission.Submission, name, main string) (*submission.Submission, error) {
	to := filepath.Join(g.scope.Dir, name)
	if err := s.Copy(to); err != nil {
		_, wrong := errors.AsType[*submission.FileError](err)
		if _, tooMuch := errors.AsType[*limited.TooMuchError](err); wrong || tooMuch {
			return nil, &submission.Problem{Reason: err.Error()}
		}
		return nil, err
	}
	return submission.Open(to, main)
}

// gradeOnSolution runs the tests on our operator. They must pass there, since a test that fails there fails on every
// mutant.
func (g *grading) gradeOnSolution(ctx context.Context) error {
	g.Progress("your tests on our operator", 0, 0)
	trial := g.newTrial()
	programs, err := g.compile(ctx, g.base, g.tested, trial, true)
	if problem, ok := errors.AsType[*submission.Problem](err); ok {
		return &submission.Problem{
			Reason: "your tests do not compile with our operator: " +
				"they can use the types of the API, and what the lab's files declared before you " +
				"began (" + problem.Reason + ")",
			Diagnostics: problem.Diagnostics,
		}
	}
	if err != nil {
		return err
	}
	if err := trial.copyFrom(g.base.Dir); err != nil {
		return err
	}
	if err := removeSources(trial.module()); err != nil {
		return err
	}
	testRun, err := g.runAll(ctx, trial.module(), g.tested, programs, func(folder string, took time.Duration) {
		g.took[folder] = took
	})
	if err := errors.Join(err, os.RemoveAll(string(trial))); err != nil {
		return err
	}
	g.report.Ours = testRun
	switch {
	case !testRun.Passed:
		return &submission.Problem{Reason: fmt.Sprintf("your tests fail on our operator, which is right (%s), "+
			"so they would fail on each mutant: they require more than the task does, or depend on chance",
			strings.Join(testRun.Failed, ", "))}
	case testRun.Tests == testRun.Skipped:
		return &submission.Problem{
			Reason: fmt.Sprintf("no test was run, and %d skip themselves: remove the lines with t.Skip", testRun.Skipped),
		}
	}
	if testRun.Skipped > 0 {
		g.report.Notices = append(g.report.Notices,
			fmt.Sprintf("%d of %d tests skip themselves, and find nothing", testRun.Skipped, testRun.Tests))
	}
	return nil
}

// trial is a folder with a copy of the solution in which tests run, and with the programs of these tests. A test must
// not find out whether the solution was changed. So the names and the flags are always the same, and there are no
// sources and no files of earlier tests.
type trial string

func (g *grading) newTrial() trial { return trial(filepath.Join(g.scope.Dir, rand.Text())) }

func (t trial) module() string { return filepath.Join(string(t), "module") }

func (t trial) copyFrom(from string) error { return copyTree(from, t.module(), nil) }

// compile compiles the tests of packages of a module into a folder. edit has the same meaning as in
// Builder.CompileTests.
func (g *grading) compile(ctx context.Context, module *submission.Submission, packages []testedPackage,
	to trial, edit bool,
) (programs []string, err error) {
	if err := os.MkdirAll(string(to), 0o700); err != nil {
		return nil, err
	}
	for i, p := range packages {
		program := filepath.Join(string(to), strconv.Itoa(i)+".test")
		if err := g.builder(module).CompileTests(ctx, p.folder, program, edit); err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}

// gradeOnSubmission runs the tests on the student's operator.
func (g *grading) gradeOnSubmission(ctx context.Context, own *submission.Submission) (err error) {
	g.Progress("your tests on your operator", 0, 0)
	var packages []testedPackage
	for _, t := range g.tested {
		packages = append(packages, testedPackage{folder: t.runs, runs: t.runs})
	}
	trial := g.newTrial()
	programs, err := g.compile(ctx, own, packages, trial, false)
	if err != nil {
		return err
	}
	g.report.Own, err = g.runAll(ctx, own.Dir, packages, programs, func(string, time.Duration) {})
	return errors.Join(err, os.RemoveAll(string(trial)))
}

// runAll runs the tests of packages in a module, each to its end. On a correct operator, a test does not fail because
// an API server is missing. In that case runAll tries again.
func (g *grading) runAll(
	ctx context.Context, module string, packages []testedPackage, programs []string,
	took func(folder string, took time.Duration),
) (*report.TestRun, error) {
	all := &report.TestRun{Passed: true}
	for i, p := range packages {
		var v verdict
		for attempt := range 2 {
			var err error
			v, err = g.runWalled(ctx, program{
				path: programs[i], module: module, dir: filepath.Join(module, filepath.FromSlash(p.runs)), limit: rightLimit,
			})
			if err != nil {
				return nil, err
			}
			if !v.noAPIServer || attempt > 0 {
				break
			}
		}
		took(p.folder, time.Duration(v.Seconds*float64(time.Second)))
		all.Passed = all.Passed && v.Passed
		all.Tests, all.Skipped, all.Seconds = all.Tests+v.Tests, all.Skipped+v.Skipped, all.Seconds+v.Seconds
		if !v.Passed {
			all.Failed = append(all.Failed, v.Failed...)
			if len(v.Failed) == 0 {
				all.Failed = append(all.Failed, v.by)
			}
			all.Output = append(all.Output, v.Output...)
		}
	}
	return all, nil
}

func (g *grading) builder(module *submission.Submission) *submission.Builder {
	return &submission.Builder{Submission: module, Scope: g.scope, Walled: g.Walled, Strict: g.Strict}
}

// digestOf identifies the tests of a submission.
func digestOf(dir, main string) (string, error) {
	opened, err := submission.Open(dir, main)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, folder := range slices.Sorted(maps.Keys(opened.Packages())) {
		for _, name := range testFiles(opened.Packages()[folder]) {
			content, err := opened.ReadFile(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(digest, "%s %d\n%s", name, len(content), content)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
