// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
)

func testCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test", GroupID: groupMaintainers, Short: "Run the unit tests of all modules but the labs, which are the students'", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			// Tests start clusters and grade: what they need is built here, where one sees how far it is.
			if _, err := tools(command.Context(), &choice{Checkout: here, Lab: &here.Labs.Labs[0]}); err != nil {
				return err
			}
			modules, err := here.Modules()
			if err != nil {
				return err
			}
			tested, err := testedPrograms(here)
			if err != nil {
				return err
			}
			for _, module := range append(modules, tested...) {
				if strings.HasPrefix(module, "labs/") {
					continue
				}
				fmt.Printf("test %s\n", module)
				if err := goTest(command.Context(), here, module, "-timeout=20m", "./..."); err != nil {
					return fmt.Errorf("the tests of %s failed: %w", module, err)
				}
			}
			return nil
		},
	}
}

// testedPrograms are the modules of programs for images that have tests. The others are not compiled for nothing: some of
// them are huge.
func testedPrograms(here *checkout.Checkout) ([]string, error) {
	tests, err := filepath.Glob(filepath.Join(here.Root, "clusters", "images", "programs", "*", "*_test.go"))
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, test := range tests {
		module, err := filepath.Rel(here.Root, filepath.Dir(test))
		if err != nil {
			return nil, err
		}
		modules = append(modules, filepath.ToSlash(module))
	}
	return slices.Compact(modules), nil
}

func benchCommand() *cobra.Command {
	var times, only string
	command := &cobra.Command{
		Use: "bench", GroupID: groupMaintainers, Short: "Measure the budgets of the design", Args: cobra.NoArgs,
		Long: "bench measures the budgets of the design: medians and worst cases, with envtest as the peer of the cluster's start.\n" +
			"The figures of a quiet machine belong into docs/benchmarks.md.",
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := here.EnsureControlPlane(command.Context()); err != nil {
				return err
			}
			return goTest(command.Context(), here, "scripts",
				"-run=^$", "-bench="+only, "-benchtime="+times, "-timeout=60m", "./bench")
		},
	}
	command.Flags().StringVar(&times, "times", "10x", "how often each is measured: a count, as 10x")
	command.Flags().StringVar(&only, "only", ".", "a regular expression for the benchmarks to run")
	return command
}

// goTest runs go test in a module, its output ours.
func goTest(ctx context.Context, here *checkout.Checkout, module string, args ...string) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	program, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("go is needed and not on PATH: %w", err)
	}
	p, err := scope.Start(process.Spec{
		Path: program, Args: append(append([]string{"test"}, gobuild.Flags...), args...),
		Dir: filepath.Join(here.Root, filepath.FromSlash(module)), Env: gobuild.Environment(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}
