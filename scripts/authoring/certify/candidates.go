// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// solutionName and tortureName are the names of two candidates that are the unchanged solution. The first is graded,
// and the second is tortured.
const (
	skeletonName = "skeleton"
	solutionName = "solution"
	tortureName  = "torture"
)

// stepsName returns the name of the candidate in which the first steps are done.
func stepsName(done int) string { return fmt.Sprintf("steps-1-to-%d", done) }

// candidate is a submission whose grade is known in advance.
type candidate struct {
	name string
	// misconception is what the author of a mutant believes. It is empty for the skeleton and the solution.
	misconception string
	// design describes how a correct design differs from the solution. It is empty for all others.
	design string
	// done is the last completed step of a submission in which only the first steps are done. It is 0 for all others.
	done int
	// base reports that a design lacks the lab's extension. The extension's checks must then be skipped.
	base        bool
	expectation mutant.Expectation
	// torture reports whether the torture runs, too. failsAs is the regular expression that its failure must match. It is
	// empty if the submission must survive.
	torture  bool
	failsAs  string
	ungraded bool // only tortured
	// first is the check that runs before all others, as in grade.Options.
	first string
	// prepare puts the submission into an empty folder. changed reports that its manifests may have to be regenerated.
	prepare func(ctx context.Context, dir string) error
	changed bool
	// source is a folder that alone determines what prepare writes. It is set for a submission that takes seconds to
	// prepare. Default: none.
	source string
}

func (c candidate) layOut(ctx context.Context, dir string) error {
	if err := c.prepare(ctx, dir); err != nil {
		return fmt.Errorf("preparing %s: %w", c.name, err)
	}
	return nil
}

// Has reports whether the lab has all submissions that Only names.
func (o *Options) Has() bool {
	_, err := o.candidates()
	return err == nil
}

// Names returns the names of all submissions that certify a lab.
func Names(repo *checkout.Checkout, lab *manifest.Lab) (names []string, err error) {
	o := Options{Checkout: repo, Lab: lab}
	all, err := o.candidates()
	for _, c := range all {
		names = append(names, c.name)
	}
	return names, err
}

// candidates returns the skeleton, the solution, the correct designs and the mutants, or those of them that Only names.
func (o *Options) candidates() ([]candidate, error) {
	source := o.SolutionDir(o.Lab)
	list, err := mutant.Load(source)
	if err != nil {
		return nil, err
	}
	copySolution := func(_ context.Context, dir string) error { return os.CopyFS(dir, os.DirFS(source)) }
	candidates := []candidate{
		{
			name: skeletonName, source: source, expectation: list.Skeleton,
			prepare: func(ctx context.Context, dir string) error {
				// The skeleton is generated, not taken from labs/, since a student may have worked there.
				return skeleton.Generator{Root: o.Root, ControllerGen: o.ControllerGen}.Generate(ctx, o.Lab.Name, dir)
			},
		},
		{name: solutionName, prepare: copySolution},
	}
	if o.tortured() {
		candidates = append(candidates, candidate{name: tortureName, ungraded: true, torture: true, prepare: copySolution})
	}
	for _, done := range o.partly() {
		candidates = append(candidates, candidate{
			name: stepsName(done), source: source, done: done,
			prepare: func(ctx context.Context, dir string) error {
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
			prepare: func(ctx context.Context, dir string) error { return errors.Join(copySolution(ctx, dir), d.apply(dir)) },
		})
	}
	for _, m := range list.Mutants {
		candidates = append(candidates, candidate{
			name: m.Name, misconception: m.Misconception, expectation: m.Expectation,
			torture: m.Torture != "", failsAs: m.Torture, changed: true,
			prepare: func(ctx context.Context, dir string) error { return errors.Join(copySolution(ctx, dir), m.Apply(dir)) },
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
			return nil, fmt.Errorf("lab %s has no submission %q to certify; there are %s",
				o.Lab.Name, name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(candidates, func(c candidate) bool { return !slices.Contains(o.Only, c.name) }), nil
}
