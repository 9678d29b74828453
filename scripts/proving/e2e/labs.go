// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// seed is the seed of the incorrect submissions. Their expected failures are known for this seed.
const seed = 1

func (r *runner) grade(ctx context.Context, lab *manifest.Lab, args ...string) error {
	return r.command(ctx, r.Lab,
		append([]string{"grade", strconv.Itoa(lab.Number), "--cluster", "kind:" + r.Name}, args...)...)
}

// solution grades the solution, which must have full marks. The exit code shows that. Checks that can't be tried if the
// operator is a Pod may be skipped.
func (r *runner) solution(ctx context.Context, lab *manifest.Lab) error {
	err := r.grade(ctx, lab, "--solution")
	if err == nil || ctx.Err() != nil {
		return err
	}
	result, readErr := report.Read(filepath.Join(r.Root, "out", "solutions", lab.Name, report.JSONFile))
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if untried := untriedAsAPod(result); len(untried) > 0 {
		fmt.Fprintf(r.Out, "%s: full marks but for %s, which need an operator that is a process\n",
			lab.Name, strings.Join(untried, ", "))
		return nil
	}
	return err
}

// untriedAsAPod returns the checks that could not be tried because the operator is a Pod. It returns none if any other
// check did not pass.
func untriedAsAPod(result *report.Report) (untried []string) {
	if result.Outcome != report.Graded {
		return nil
	}
	for _, check := range result.Checks {
		switch {
		case check.Status == report.Passed:
		case check.Status == report.Skipped && strings.HasSuffix(check.Reason, protocol.NeedsProcess):
			untried = append(untried, check.ID)
		default:
			return nil
		}
	}
	return untried
}

// wrong grades the first mutant of a lab, which must fail exactly its checks for the expected reasons.
func (r *runner) wrong(ctx context.Context, lab *manifest.Lab) error {
	solution := r.SolutionDir(lab)
	list, err := mutant.Load(solution)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list.Mutants, func(m mutant.Mutant) bool { return m.Torture == "" })
	if i < 0 {
		return fmt.Errorf("%s has no mutant that a check finds", lab.Name)
	}
	wrong := list.Mutants[i]
	fmt.Fprintf(r.Out, "%s: %s\n", wrong.Name, wrong.Misconception)
	controllerGen, err := r.ControllerGen(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.scope.Dir, "e2e-"+lab.Name+"-"+wrong.Name)
	out := filepath.Join(r.Root, "out", "submissions", checkout.ReportsOf(dir))
	defer os.RemoveAll(out)
	if err := errors.Join(os.CopyFS(dir, os.DirFS(solution)), wrong.Apply(dir)); err != nil {
		return err
	}
	if err := (skeleton.Generator{Root: r.Root, ControllerGen: controllerGen}).Manifests(ctx, dir); err != nil {
		return err
	}
	if err := r.grade(ctx, lab, "--dir", dir, "--seed", strconv.Itoa(seed)); err == nil {
		return fmt.Errorf("%s has full marks, and must fail %s",
			wrong.Name, strings.Join(slices.Sorted(maps.Keys(wrong.Fails)), ", "))
	} else if ctx.Err() != nil {
		return err
	}
	result, err := report.Read(filepath.Join(out, lab.Name, report.JSONFile))
	if err != nil {
		return err
	}
	return deviations(result, wrong.Fails)
}

// deviations returns the differences between a report and the checks that must fail, with their reasons.
func deviations(result *report.Report, fails map[string]string) error {
	if result.Outcome != report.Graded {
		return fmt.Errorf("the outcome is %s: %s", result.Outcome, result.Reason)
	}
	var problems []error
	for _, check := range result.Checks {
		reason, must := fails[check.ID]
		switch failed := check.Status == report.Failed; {
		case must && !failed:
			problems = append(problems, fmt.Errorf("%s must fail, but it was %s", check.ID, check.Status))
		case !must && failed:
			problems = append(problems, fmt.Errorf("%s must not fail: %s", check.ID, check.Observed))
		case must && !regexp.MustCompile(reason).MatchString(check.Observed):
			problems = append(problems, fmt.Errorf("%s fails for a reason other than %q: %s", check.ID, reason, check.Observed))
		}
	}
	return errors.Join(problems...)
}
