// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command cluster is what instructors run: it makes clusters of kind with Cilium and cert-manager, looks after them, and invites
// students. It parses and wires; the work is done by the packages of clusters, and by scripts/class.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/connectivity"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/report/terminal"
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
		Short: "Make clusters of kind with Cilium and cert-manager, look after them, and invite students",
		Long: "cluster makes a cluster for a student or a class: kind, with Cilium and cert-manager, with a registry or without one.\n" +
			"`make cluster` is `cluster create`; docs/reference/cluster.md says all of it.",
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
	add(groupCluster, createCommand(), statusCommand(), testCommand(), exportLogsCommand(), deleteCommand())
	add(groupClass, inviteCommand(), revokeCommand())
	add(groupCluster, e2eCommand())
	add(groupImages, imagesCommand(), loadCommand(), bundleCommand(), engineCommand())
	return cli.Prepare(command)
}

// nameFlag adds the flag that says which cluster of kind is meant.
func nameFlag(command *cobra.Command, name *string) {
	command.Flags().StringVar(name, "name", docker.DefaultCluster, "the cluster's name")
}

// place is a checkout, and a cluster by its name. Its steps are shown on standard error: what is for programs goes to standard
// output.
type place struct {
	root    string
	cluster *kind.Cluster
	store   *images.Store
	steps   *steps
}

func find(name string) (*place, error) {
	here, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	cluster, err := kind.New(here.Root, name)
	if err != nil {
		return nil, err
	}
	return &place{
		root: here.Root, cluster: cluster, steps: newSteps(os.Stderr, terminal.Detect(os.Stderr, os.Getenv)), store: images.StoreOf(here.Root),
	}, nil
}

// lock makes sure that no other command works on the cluster.
func (p *place) lock(ctx context.Context) (unlock func(), err error) {
	return p.cluster.Lock(ctx, func() {
		fmt.Fprintf(os.Stderr, "Another command works on the cluster %s; waiting for its end.\n", p.cluster.Name)
	})
}
