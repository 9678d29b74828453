// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/placement"
	"lva.io/operators/scripts/grading/playground"
)

// onPlayground is the value of --cluster for the playground.
const onPlayground = "playground"

// deployFlags are the common flags of the commands in a lab's Makefile.
type deployFlags struct {
	dir       string
	placement clusterFlags
}

func (f *deployFlags) register(command *cobra.Command) {
	f.registerDir(command)
	command.Flags().StringVar(&f.placement.Cluster, "cluster", onPlayground, "where: playground, kind, or kind:NAME")
}

func (f *deployFlags) registerDir(command *cobra.Command) {
	f.dir = "."
	command.Flags().Var((*cli.Folder)(&f.dir), "dir", "the folder of the operator's module")
}

// operator returns the operator in the folder.
func (f *deployFlags) operator(repo *checkout.Checkout) *playground.Operator {
	return operatorIn(repo, repo.LabOf(f.dir), f.dir, "")
}

// target returns the selected cluster.
func (f *deployFlags) target(repo *checkout.Checkout) (playground.Target, error) {
	if f.placement.Cluster == onPlayground {
		return playground.Target{}, nil
	}
	on, name, err := f.placement.Parse()
	if err != nil || on != placement.Kind {
		return playground.Target{}, fmt.Errorf("--cluster %s: write playground, kind, or kind:NAME, "+
			"since only there an image can be loaded into the nodes without a registry", f.placement.Cluster)
	}
	return playground.Target{Kind: name, Find: func(ctx context.Context) (string, error) {
		target, _, err := f.placement.ExistingCluster(ctx, repo)
		return target.File, err
	}}, nil
}

func imageCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "image", GroupID: groupPlayground,
		Short: "Build an image of an operator without Docker, and load it into the nodes of a cluster", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var build, load deployFlags
	building := &cobra.Command{
		Use: "build IMAGE", Short: "Build the image: `make docker-build` of a lab",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return build.operator(repo).BuildImage(command.Context(), args[0])
		},
	}
	build.registerDir(building)
	loading := &cobra.Command{
		Use: "load IMAGE", Short: "Load the image into the nodes: `make docker-push` of a lab",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			target, err := load.target(repo)
			if err != nil {
				return err
			}
			return load.operator(repo).LoadImage(command.Context(), args[0], target)
		},
	}
	load.register(loading)
	command.AddCommand(building, loading)
	return command
}

func deployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "deploy IMAGE", GroupID: groupPlayground,
		Short: "Deploy an operator by its config/default: `make deploy` of a lab",
		Long: "deploy generates CRD, role and webhooks from the markers again, " +
			"puts config/default together with kustomize, lets the operator's\n" +
			"container use the image, and applies the result. The lab's folder is not changed.",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			if _, err := named.Complete(args[0]); err != nil {
				return err
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			target, err := flags.target(repo)
			if err != nil {
				return err
			}
			return flags.operator(repo).Deploy(command.Context(), args[0], target)
		},
	}
	flags.register(command)
	return command
}

func undeployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "undeploy", GroupID: groupPlayground,
		Short: "Remove the deployed operator: `make undeploy` of a lab", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			target, err := flags.target(repo)
			if err != nil {
				return err
			}
			return flags.operator(repo).Undeploy(command.Context(), target)
		},
	}
	flags.register(command)
	return command
}
