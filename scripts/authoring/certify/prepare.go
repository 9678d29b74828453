// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"slices"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/submission"
)

// Prepare builds what grading submissions of some labs needs, and downloads the modules of their solutions, which most
// submissions need. It returns the options of each lab: those of base, which has the checkout, with the programs of the
// lab. harness identifies the code that grades a lab, as in Options. Nil: the options have no Harness.
func Prepare(
	ctx context.Context, base Options, harness func(*manifest.Lab) (string, error), labs ...*manifest.Lab,
) ([]Options, error) {
	withNode := slices.ContainsFunc(labs, func(lab *manifest.Lab) bool { return lab.NeedsNode(lab.Stage) })
	if err := base.Prepare(ctx, withNode, labs...); err != nil {
		return nil, err
	}
	var all []Options
	for _, lab := range labs {
		options := base
		options.Lab, options.WithNode = lab, node.Starter(base.Checkout, lab)
		var err error
		if harness != nil {
			if options.Harness, err = harness(lab); err != nil {
				return nil, err
			}
		}
		if options.ControllerGen, err = base.Checkout.ControllerGen(ctx); err != nil {
			return nil, err
		}
		if options.Checks, err = base.Checkout.Checks(ctx, lab); err != nil {
			return nil, err
		}
		if err := submission.FetchMissing(ctx, "lab "+lab.Name, &submission.Builder{
			Submission: &submission.Submission{Dir: base.SolutionDir(lab)},
		}); err != nil {
			return nil, err
		}
		all = append(all, options)
	}
	return all, nil
}
