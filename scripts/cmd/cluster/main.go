// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command cluster creates kind clusters with Cilium and cert-manager for instructors, maintains them, and invites
// students. It only parses arguments and connects packages: the packages of clusters and scripts/classes/class do the
// work.
package main

import (
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/connectivity"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/scripts/checkout/cli"
)

func main() {
	connectivity.Child()
	cli.Main(root())
}

const (
	groupCluster = "cluster"
	groupClass   = "class"
	groupImages  = "images"
)

func root() *cobra.Command {
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Create and manage kind clusters with Cilium and cert-manager, and invite students",
		Long: "cluster makes a cluster for a student or a class: kind, with Cilium and cert-manager, " +
			"with a registry or without one.\n" +
			"`make cluster` is `cluster create`; see docs/reference/cluster.md for details.",
		SilenceUsage: true, SilenceErrors: true, Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.CompletionOptions.HiddenDefaultCmd = true
	command.AddGroup(
		&cobra.Group{ID: groupCluster, Title: "Clusters:"},
		&cobra.Group{ID: groupClass, Title: "A class:"},
		&cobra.Group{ID: groupImages, Title: "Images, and Docker's engine:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, one := range commands {
			one.GroupID = group
			command.AddCommand(one)
		}
	}
	add(groupCluster, createCommand(), statusCommand(),
		uninstallCommand(), testCommand(), exportLogsCommand(), deleteCommand())
	add(groupClass, inviteCommand(), revokeCommand())
	add(groupCluster, e2eCommand())
	add(groupImages, imagesCommand(), loadCommand(), bundleCommand(), engineCommand())
	return cli.Prepare(command)
}

// nameFlag adds the flag with the name of the kind cluster.
func nameFlag(command *cobra.Command, name *string) {
	command.Flags().StringVar(name, "name", docker.DefaultCluster, "the cluster's name")
}
