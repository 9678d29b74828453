// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/submission"
)

func runCommand() *cobra.Command {
	var dir string
	var solution bool
	command := &cobra.Command{
		Use: "run N", GroupID: groupPlayground, Short: "Run a lab's operator at the playground, with its own role",
		Long: "run installs the lab's API into the playground and runs its operator there until Ctrl-C, under an account with\n" +
			"exactly the rights that its markers ask for. It is the lecture's `make install run`.",
		Args: func(command *cobra.Command, args []string) error {
			if dir != "" && len(args) == 0 {
				return nil
			}
			return exactlyOneLab(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				chosen, err := (&choiceFlags{dir: dir, solution: solution}).choose(args[0])
				if err != nil {
					return err
				}
				dir = chosen.Dir
			}
			return run(command.Context(), here, dir)
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "a Go module of kubebuilder's layout, instead of a lab")
	command.Flags().BoolVar(&solution, "solution", false, "the solution, instead of the lab")
	command.MarkFlagsMutuallyExclusive("dir", "solution")
	return command
}

// run builds and installs what is in a folder, and runs it until somebody ends it or it ends itself.
func run(ctx context.Context, here *checkout.Checkout, dir string) (err error) {
	opened, err := submission.Open(dir)
	if err != nil {
		return err
	}
	controllerGen, err := here.ControllerGen(ctx)
	if err != nil {
		return err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer scope.Close()
	workshop := &submission.Workshop{Submission: opened, Scope: scope, ControllerGen: controllerGen, Cache: here.BuildCache(opened.Dir)}
	if err := workshop.Build(ctx); err != nil {
		return err
	}
	manifests, err := workshop.Generate(ctx)
	if err != nil {
		return err
	}
	if _, err := up(ctx, here); err != nil {
		return err
	}
	playground := here.Playground()
	config, err := playground.Config()
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(scope.Dir, "operator.kubeconfig")
	if err := manifests.Install(ctx, config, submission.Access{File: kubeconfig}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The operator runs at the playground, under its own account; Ctrl-C ends it. In another terminal:\n"+
		"export KUBECONFIG=%s\n\n", playground.Kubeconfig())
	operator, err := workshop.StartOperator(kubeconfig, os.Stdout)
	if err != nil {
		return err
	}
	select {
	case <-operator.Done():
		return fmt.Errorf("the operator ended by itself: %s", submission.Ending(operator.Err()))
	case <-ctx.Done():
		operator.Stop(submission.StopGrace)
		return nil
	}
}
