// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/connectivity"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
)

func testCommand() *cobra.Command {
	var name, contextName, image string
	var only []string
	command := &cobra.Command{
		Use: "test", Short: "Test the network: Pods, Services, NodePorts, DNS, and policies that deny and allow",
		Args: cli.NoArguments,
		Long: "test runs our own tests of a cluster's network, " +
			"and `cilium connectivity test` after them where that command is on PATH.\n" +
			"They are: " + strings.Join(connectivity.Names(), "; ") + ".",
		RunE: func(command *cobra.Command, _ []string) error {
			env, err := environment.Find(name)
			if err != nil {
				return err
			}
			if contextName != "" {
				return testContext(command.Context(), env, contextName, image, only)
			}
			return testKind(command.Context(), env, image, only)
		},
	}
	nameFlag(command, &name)
	command.Flags().StringVar(&contextName, "context", "", "the cluster of this context of your kubeconfig instead")
	command.Flags().StringVar(&image, "image", "",
		"what the tests' Pods run, where the nodes can pull it (default: "+connectivity.Image+")")
	command.Flags().StringSliceVar(&only, "only", nil, "only these tests, by name")
	cli.Exclusive(command, "name", "context")
	return command
}

func testKind(ctx context.Context, env *environment.Environment, image string, only []string) error {
	found, err := env.Cluster.Find(ctx)
	if err != nil {
		return err
	}
	if found.State != kind.Made {
		return fmt.Errorf(
			"there is no cluster %s to test: `make cluster-status` shows which clusters exist", env.Cluster.Name,
		)
	}
	// Another command may have removed it, or a machine may have been given only the checkout.
	if _, err := env.Cluster.WriteKubeconfig(); err != nil {
		return err
	}
	workers := 0
	for _, node := range found.Nodes {
		if !node.ControlPlane {
			workers++
		}
	}
	return test(ctx, env, connectivity.Options{
		// Docker's virtual machine on other systems hides the nodes' addresses.
		Kubeconfig: env.Cluster.Kubeconfig(), Image: image, Nodes: runtime.GOOS == "linux", Only: only,
	}, workers)
}

func testContext(ctx context.Context, env *environment.Environment, name, image string, only []string) error {
	if image == "" {
		return errors.New("--context needs --image: push " + connectivity.Image +
			" (`cluster images` shows whether it is built) where that cluster can pull it, and name it")
	}
	cluster, err := existing.Open(ctx, "", name)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		return fmt.Errorf("creating a folder for the kubeconfig: %w", err)
	}
	defer os.RemoveAll(folder)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	nodes, err := kind.NodeStates(ctx, cluster.Config())
	if err != nil {
		return err
	}
	return test(ctx, env, connectivity.Options{Kubeconfig: kubeconfig, Image: image, Only: only}, len(nodes))
}

func test(ctx context.Context, env *environment.Environment, options connectivity.Options, workers int) error {
	if err := connectivity.Run(ctx, options, func(result connectivity.Result) {
		problem := result.Problem
		if result.Skipped {
			problem = "skipped: " + problem
		}
		env.Steps.Result(result.Feature, result.Took, problem, result.Passed || result.Skipped)
	}); err != nil {
		return err
	}
	ran, err := connectivity.Network(ctx, options.Kubeconfig, workers, os.Stderr)
	if !ran {
		env.Steps.Note("the command cilium is not on PATH: `cilium connectivity test` was not run")
	}
	return err
}
