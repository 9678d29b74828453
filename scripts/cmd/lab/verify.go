// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/authoring/verify"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/cli"
	commands "lva.io/operators/scripts/checkout/command"
)

func verifyCommand() *cobra.Command {
	return repositoryCommand(
		"verify", "Check the repository: generated files, pages, modules, lint. It edits nothing", verify.Verify,
	)
}

func fixCommand() *cobra.Command {
	return repositoryCommand("fix", "Fix what verify finds, as far as a program can", verify.Fix)
}

func repositoryCommand(name, sentence string, do func(context.Context, verify.Options) error) *cobra.Command {
	var only []string
	var short bool
	var since string
	command := &cobra.Command{
		Use: name, GroupID: groupMaintainers, Short: sentence, Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			options := verify.Options{Root: repo.Root, Only: only, Short: short, Out: os.Stdout}
			if err := options.Validate(); err != nil {
				return err
			}
			if options.ControllerGen, err = repo.ControllerGen(command.Context()); err != nil {
				return err
			}
			if options.NeedsClients() {
				if options.Clients, err = clientgen.New(command.Context(), repo); err != nil {
					return err
				}
			}
			if options.NeedsLinter() {
				if options.GolangCILint, err = repo.GolangCILint(command.Context()); err != nil {
					return err
				}
			}
			if since != "" {
				var runner *commands.Runner
				if runner, err = commands.NewRunner(); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, runner.Close()) }()
				if options.Since, err = changes.Since(command.Context(), runner, repo.Root, since); err != nil {
					return err
				}
			}
			return do(command.Context(), options)
		},
	}
	command.Flags().StringSliceVar(&only, "only", nil, "run these checks instead of all")
	command.Flags().BoolVar(&short, "short", false, "leave out what belongs to the proof: types for macOS")
	command.Flags().StringVar(&since, "since", "", "lint only packages that differ from this commit")
	return command
}
