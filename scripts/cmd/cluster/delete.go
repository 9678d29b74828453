// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/engine"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

func deleteCommand() *cobra.Command {
	var name string
	var force, nodeImage bool
	command := &cobra.Command{
		Use: "delete", Short: "Delete a cluster with everything in it, and stop the engine if this command started it",
		Args: cli.NoArguments,
		Long: "delete removes the nodes with their volumes, the cluster's folder, " +
			"Docker's network kind if no other cluster needs it,\n" +
			"and stops Docker's engine if `cluster create` started it and it has no containers left. Built images stay in\n" +
			".cache/images, so that the next cluster starts faster.",
		RunE: func(command *cobra.Command, _ []string) error {
			return remove(command.Context(), name, force, nodeImage)
		},
	}
	nameFlag(command, &name)
	command.Flags().BoolVar(&force, "force", false, "even if this command did not create it")
	command.Flags().BoolVar(&nodeImage, "node-image", false, "also remove the node image from Docker")
	return command
}

func remove(ctx context.Context, name string, force, nodeImage bool) error {
	env, err := environment.Find(name)
	if err != nil {
		return err
	}
	unlock, err := env.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := env.Cluster.Find(ctx)
	if err != nil {
		if !errors.Is(err, docker.ErrNoEngine) && !errors.Is(err, docker.ErrMissing) {
			return err
		}
		return withoutEngine(ctx, env, err)
	}
	if found.State == kind.Foreign && !force {
		return fmt.Errorf("the cluster %s was not created by this command: use --force to delete it anyway", name)
	}
	was, err := env.Cluster.Delete(ctx)
	if err != nil {
		return err
	}
	if nodeImage {
		if err := removeNodeImages(ctx); err != nil {
			return err
		}
	}
	if was {
		fmt.Printf("Deleted the cluster %s.\n", name)
	} else {
		fmt.Printf("There is no cluster %s.\n", name)
	}
	ended, err := engine.StopIfOurs(ctx, env.Root)
	if err != nil {
		return err
	}
	if ended {
		fmt.Println("Stopped Docker's engine, which `cluster create` had started.")
	}
	return os.RemoveAll(env.Cluster.Folder + ".lock")
}

// withoutEngine removes what can exist while no engine runs. If the engine is ours and was stopped, none of its
// clusters can run any more. An engine of this machine may still have clusters.
func withoutEngine(ctx context.Context, env *environment.Environment, err error) error {
	if _, statErr := os.Stat(env.Cluster.Folder); statErr == nil && !isOurEngine(env.Root) {
		return err
	}
	if _, err := engine.StopIfOurs(ctx, env.Root); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(env.Cluster.Folder), os.RemoveAll(env.Cluster.Folder+".lock")); err != nil {
		return err
	}
	fmt.Printf("There is no cluster %s, and Docker's engine is not running.\n", env.Cluster.Name)
	return nil
}

// isOurEngine reports whether an engine of this checkout left its data.
func isOurEngine(root string) bool {
	_, err := os.Stat(filepath.Join(root, ".cache", "engine", "data"))
	return err == nil
}

// removeNodeImages removes the node images that we loaded into Docker or pulled. Images that another cluster uses stay.
func removeNodeImages(ctx context.Context) error {
	references := []string{kind.NodeImage}
	catalogue, err := images.Load()
	if err != nil {
		return err
	}
	for _, image := range catalogue.Set("node") {
		references = append(references, image.Reference)
	}
	for _, reference := range references {
		_, err := docker.Output(ctx, "image", "rm", reference)
		var failed *docker.Error
		if err != nil && (!errors.As(err, &failed) || !strings.Contains(failed.Stderr, "No such image")) {
			return fmt.Errorf("removing the node image: %w", err)
		}
	}
	return nil
}

func exportLogsCommand() *cobra.Command {
	var name string
	command := &cobra.Command{
		Use: "export-logs DIR", Short: "Write all logs of a cluster's nodes and Pods, and its audit log, into a folder",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the folder that the logs go into")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			env, err := environment.Find(name)
			if err != nil {
				return err
			}
			if _, err := docker.Nodes(command.Context(), name); err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return env.Steps.Run(command.Context(), []steps.Step{{
				Name: "logs",
				Do: func(ctx context.Context, report func(string)) (string, error) {
					return dir, env.Cluster.ExportLogs(ctx, dir, report)
				},
			}})
		},
	}
	nameFlag(command, &name)
	return command
}
