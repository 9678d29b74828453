// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package clientgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
)

// Generator has the paths of the programs.
type Generator struct {
	ClientGen, ListerGen, InformerGen string
}

// New finds the programs of a checkout. It builds those that are missing.
func New(ctx context.Context, repo *checkout.Checkout) (Generator, error) {
	paths, err := repo.ClientGenerators(ctx)
	if err != nil {
		return Generator{}, err
	}
	return Generator{ClientGen: paths[0], ListerGen: paths[1], InformerGen: paths[2]}, nil
}

// folder is the folder of the generated packages in a module. apis is the folder of its types: api/GROUP/VERSION, as in
// a kubebuilder project with several groups.
const (
	folder = "internal/generated"
	apis   = "api"
)

// ErrNoTypes reports that no type of a module requests a client.
var ErrNoTypes = errors.New("no type in api/GROUP/VERSION has the marker +genclient")

// Generated reports whether the programs generate this file of a module.
func Generated(name string) bool { return strings.HasPrefix(name, folder+"/") }

// Generate generates the packages of the module in a folder again. It removes the earlier ones.
func (g Generator) Generate(ctx context.Context, dir string) error {
	versions, err := marked(dir)
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoTypes)
	}
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer runner.Close()
	module, err := runner.Run(ctx, dir, nil, "go", "list", "-m")
	if err != nil {
		return fmt.Errorf("reading the name of the module: %w", err)
	}
	module = strings.TrimSpace(module)
	target := filepath.Join(dir, filepath.FromSlash(folder))
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("removing the old clients: %w", err)
	}
	pkg := module + "/" + folder
	var packages, inputs []string
	for _, version := range versions {
		packages = append(packages, path.Join(module, apis, version))
		inputs = append(inputs, "--input", version)
	}
	common := func(name string) []string {
		return []string{
			"--go-header-file", os.DevNull,
			"--output-dir", filepath.Join(target, name),
			"--output-pkg", pkg + "/" + name,
		}
	}
	for _, step := range []struct {
		program string
		args    []string
	}{
		{g.ClientGen, slices.Concat(common("clientset"),
			[]string{"--clientset-name", "versioned", "--input-base", filepath.Join(dir, apis)}, inputs)},
		{g.ListerGen, slices.Concat(common("listers"), packages)},
		{g.InformerGen, slices.Concat(common("informers"), []string{
			"--versioned-clientset-package", pkg + "/clientset/versioned", "--listers-package", pkg + "/listers",
		}, packages)},
	} {
		if _, err := runner.Run(ctx, dir, nil, step.program, step.args...); err != nil {
			return fmt.Errorf("generating clients with %s: %w", filepath.Base(step.program), err)
		}
	}
	return nil
}

// marked returns the GROUP/VERSION folders of a module that have a type with a request for a client, sorted.
func marked(dir string) (versions []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, apis, "*", "*", "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("looking for types with clients: %w", err)
		}
		for line := range bytes.Lines(content) {
			if comment, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("//")); found &&
				string(bytes.TrimSpace(comment)) == "+genclient" {
				version := filepath.Dir(file)
				versions = append(versions, path.Join(filepath.Base(filepath.Dir(version)), filepath.Base(version)))
			}
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

// Requested reports whether a type of the module in a folder requests a client. It is false for a missing folder.
func Requested(dir string) (bool, error) {
	versions, err := marked(dir)
	return len(versions) > 0, err
}
