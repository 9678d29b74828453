// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/engine"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

func engineCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "engine", Short: "Start Docker's engine, installing it on Debian, or stop an engine started this way",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(
		&cobra.Command{
			Use: "start", Short: "Start Docker's engine if it is not running, and install it from Debian packages if needed",
			Args: cli.NoArguments,
			RunE: func(command *cobra.Command, _ []string) error {
				env, err := environment.Find(docker.DefaultCluster)
				if err != nil {
					return err
				}
				start := func(ctx context.Context, report func(string)) (string, error) {
					return engine.Start(ctx, env.Root, report)
				}
				return env.Steps.Run(command.Context(), []steps.Step{{Name: "engine", Do: start}})
			},
		},
		&cobra.Command{
			Use: "stop", Short: "Stop the engine that start or create started, with everything in it", Args: cli.NoArguments,
			RunE: func(command *cobra.Command, _ []string) error {
				env, err := environment.Find(docker.DefaultCluster)
				if err != nil {
					return err
				}
				if err := engine.Stop(command.Context(), env.Root); err != nil {
					return err
				}
				fmt.Println("Stopped Docker's engine.")
				return nil
			},
		},
	)
	return command
}
