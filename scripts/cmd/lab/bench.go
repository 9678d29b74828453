// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/proving/bench"
	"lva.io/operators/scripts/proving/gate"
)

func benchCommand() *cobra.Command {
	var times, only string
	command := &cobra.Command{
		Use: "bench", GroupID: groupMaintainers, Short: "Measure the budgets of the design", Args: cli.NoArguments,
		Long: "bench measures the budgets of the design: medians and worst cases, " +
			"with envtest as the peer of the cluster's start.\n" +
			"Record the figures of a quiet machine in docs/benchmarks.md.",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := bench.Match(repo.Root, only); err != nil {
				return err
			}
			if _, err := repo.EnsureNode(command.Context()); err != nil {
				return err
			}
			return gate.GoTest(command.Context(), os.Stdout, repo.Root, "scripts",
				"-run=^$", "-bench="+only, "-benchtime="+times, "-timeout=60m", "./proving/bench")
		},
	}
	command.Flags().StringVar(&times, "times", "10x", "how often each is measured: a count, as 10x")
	command.Flags().StringVar(&only, "only", ".", "a regular expression for the benchmarks to run")
	return command
}
