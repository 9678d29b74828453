// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/experiment/state"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
)

func experimentCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "experiment", GroupID: groupPlayground,
		Short: "Run an experiment of a lecture on a cluster of its own", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(stateCommand())
	return command
}

func stateCommand() *cobra.Command {
	options := state.Options{Objects: 50_000, Watchers: 1000}
	command := &cobra.Command{
		Use: "state", Short: "Measure a cluster whose API server is used as a database", Args: cli.NoArguments,
		Long: "state starts an embedded cluster, fills it with objects of one kind, and measures: " +
			"how large an object can be, how long a\n" +
			"list takes, how long until all watches have seen a write, and how much memory and disk that costs. " +
			"It prints the charts,\n" +
			"writes them into out/" + stateDir + " as SVG, with the figures beside them, and removes the cluster.",
		Example: "  lab experiment state\n  lab experiment state --objects 3000 --watchers 100",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := repo.EnsureControlPlane(command.Context()); err != nil {
				return err
			}
			result, err := measureState(command.Context(), repo, options)
			if err != nil {
				return err
			}
			dir, err := repo.Out(stateDir)
			if err != nil {
				return err
			}
			return result.Show(command.OutOrStdout(), dir)
		},
	}
	command.Flags().Var((*cli.Count)(&options.Objects), "objects", "the final number of objects")
	command.Flags().Var((*cli.Count)(&options.Watchers), "watchers", "the final number of watches")
	return command
}

// stateDir, below out, holds the charts and the figures.
const stateDir = "experiment-state"

// measureState runs the experiment on a temporary cluster.
func measureState(
	ctx context.Context, repo *checkout.Checkout, options state.Options,
) (result *state.Result, err error) {
	bar := progress.Start(os.Stderr, "measure")
	cluster, err := embedded.StartServer(ctx, repo.ControlPlane)
	if err != nil {
		bar.Fail()
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	options.Progress = bar.Set
	result, err = state.Run(ctx, state.Cluster{
		Config: cluster.Config(), PIDs: cluster.PIDs(), Version: cluster.Version,
	}, options)
	if err != nil {
		bar.Fail()
		return nil, err
	}
	bar.Done()
	return result, nil
}
