// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"errors"
	"slices"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checkout/programs"
)

// harness is the code that grades submissions of all labs: the package, and the file of the command that uses it.
var harness = Inputs{
	Packages: []string{"scripts/authoring/certify"},
	Files:    []string{"scripts/cmd/lab/certify.go"},
}

// Harness returns a function that identifies the code that grades a lab of a checkout, including the checks. The
// identifier stays the same as long as no change of the code can change a grade. It is empty if the command is older
// than its sources, or if git does not know the sources. Then only the program itself identifies the code.
func Harness(ctx context.Context, repo *checkout.Checkout) (_ func(*manifest.Lab) (string, error), err error) {
	none := func(*manifest.Lab) (string, error) { return "", nil }
	if !programs.Lab(repo.Root).Fresh() {
		return none, nil
	}
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	tree, err := ReadTree(ctx, runner, repo.Root)
	if errors.Is(err, errNoClone) {
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	return tree.harness, nil
}

func (t *Tree) harness(lab *manifest.Lab) (string, error) {
	in := harness
	in.Packages = append(slices.Clip(in.Packages), checksOf(lab))
	return t.Hash(in)
}
