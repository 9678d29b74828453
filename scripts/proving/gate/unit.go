// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/command"
)

// UnchangedSolutions returns the modules of solutions in which no file differs from a commit. They import none of our
// packages. Without a commit there are none.
func UnchangedSolutions(
	ctx context.Context, root string, modules []string, since string,
) (unchanged []string, err error) {
	if since == "" {
		return nil, nil
	}
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	differ, err := changes.Since(ctx, runner, root, since)
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		if strings.HasPrefix(module, "solutions/") &&
			!differ.Any(func(file string) bool { return strings.HasPrefix(file, module+"/") }) {
			unchanged = append(unchanged, module)
		}
	}
	return unchanged, nil
}

// WithControlPlane and WithoutControlPlane are the values of --control-plane of the command unit.
const (
	WithControlPlane    = "with"
	WithoutControlPlane = "without"
)

// startsControlPlane are packages that start a control plane. A test program that is linked without them starts none.
var startsControlPlane = []string{"lva.io/operators/clusters/embedded", "sigs.k8s.io/controller-runtime/pkg/envtest"}

// TestedPackages returns the packages of a module that have tests. With a value of --control-plane, it returns only
// those with or without a control plane.
func TestedPackages(ctx context.Context, root, module, controlPlane string) (_ []string, err error) {
	if controlPlane == "" {
		return []string{"./..."}, nil
	}
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	// The program of a package's tests has the name of the package with .test.
	out, err := runner.Run(ctx, filepath.Join(root, filepath.FromSlash(module)), nil,
		"go", "list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	if err != nil {
		return nil, fmt.Errorf("asking Go which packages of %s have tests: %w", module, err)
	}
	var packages []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		name, isTest := strings.CutSuffix(words[0], ".test")
		if !isTest {
			continue
		}
		starts := slices.ContainsFunc(words[1:], func(imported string) bool {
			return slices.Contains(startsControlPlane, imported)
		})
		if starts == (controlPlane == WithControlPlane) {
			packages = append(packages, name)
		}
	}
	return packages, nil
}
