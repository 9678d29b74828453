// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/playground"
)

func helmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "helm ARGS…", GroupID: groupPlayground, Short: "Run helm against the playground", DisableFlagParsing: true,
		Long: "helm runs Helm's own command, at the version that the course uses, against the playground. " +
			"It is built when it is first\n" +
			"used, and stays beside lab as helm. It caches repositories in .cache/helm.",
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if _, err := repo.Playground().Config(); err != nil && !playground.HelmNeedsNoCluster(args) {
				return err
			}
			program, err := repo.Helm(command.Context())
			if err != nil {
				return err
			}
			return become(program, "helm", args, playground.HelmEnvironment(repo, os.Environ()))
		},
	}
}

func chartCommand() *cobra.Command {
	return &cobra.Command{
		Use: "chart NAME", GroupID: groupPlayground,
		Short: "Print the file of a chart of the course, for helm: cert-manager or cilium",
		Long: "chart prints the path of a chart archive. The chart is its project's own, " +
			"out of the Go module at the course's version, so that no\n" +
			"registry is needed. It is made when it is missing.",
		Example: `  lab helm upgrade --install cert-manager "$(lab chart cert-manager)" ` +
			`--namespace cert-manager --create-namespace --set crds.enabled=true --wait`,
		Args: cli.OneArgument("chart", "cert-manager"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			chart, err := images.StoreOf(repo.Root).Chart(command.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), chart.Path)
			return err
		},
	}
}
