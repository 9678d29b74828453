// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
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
			playground := repo.Playground()
			if _, err := playground.Config(); err != nil && !needsNoCluster(args) {
				return err
			}
			program, err := repo.Helm(command.Context())
			if err != nil {
				return err
			}
			return become(program, "helm", args,
				helmEnvironment(os.Environ(), playground.Kubeconfig(), filepath.Join(repo.Root, ".cache", "helm")))
		},
	}
}

// needsNoCluster reports whether a call of helm works without a cluster.
func needsNoCluster(args []string) bool {
	return asksForHelp(args) || slices.Contains([]string{
		"completion", "env", "lint", "package", "pull", "repo", "search", "show", "template", "version",
	}, args[0])
}

// helmEnvironment points Helm at a cluster, and at a folder for its files. It removes the user's own settings, because
// those of another cluster do not apply here and charts of the course come from no repository.
func helmEnvironment(have []string, kubeconfig, folder string) []string {
	environment := slices.DeleteFunc(have, func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "HELM_")
	})
	return append(environment, "KUBECONFIG="+kubeconfig,
		"HELM_CACHE_HOME="+filepath.Join(folder, "cache"), "HELM_CONFIG_HOME="+filepath.Join(folder, "config"),
		"HELM_DATA_HOME="+filepath.Join(folder, "data"))
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
