// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
)

func upCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up", GroupID: groupPlayground, Short: "Start the playground, unless it runs", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			started, err := up(command.Context(), here)
			if err != nil {
				return err
			}
			// What is for people goes to standard error, so that `eval "$(lab up)"` works.
			if started {
				fmt.Fprintf(os.Stderr, "The playground runs: Kubernetes %s. To use it:\n", here.ControlPlane.Version)
			} else {
				fmt.Fprintln(os.Stderr, "The playground runs already. To use it:")
			}
			fmt.Printf("export KUBECONFIG=%s\n", here.Playground().Kubeconfig())
			return nil
		},
	}
}

// up starts the playground unless it runs.
func up(ctx context.Context, here *checkout.Checkout) (started bool, err error) {
	if err := here.EnsureControlPlane(ctx); err != nil {
		return false, err
	}
	return here.Playground().Up(ctx, here.ControlPlane)
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", GroupID: groupPlayground, Short: "End the playground and remove all that it holds", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			was, err := here.Playground().Down()
			if err != nil {
				return err
			}
			if was {
				fmt.Println("The playground is gone.")
			} else {
				fmt.Println("There is no playground.")
			}
			return nil
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", GroupID: groupPlayground, Short: "Say what of the playground runs", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			status, err := here.Playground().Status(command.Context())
			if err != nil {
				return err
			}
			fmt.Printf("playground  Kubernetes %s at %s, since %s\n", status.Version, status.Host, status.Started.Format("2 Jan 15:04"))
			for _, name := range slices.Sorted(maps.Keys(status.Programs)) {
				state := "runs"
				if !status.Programs[name] {
					state = "has ended"
				}
				fmt.Printf("  %-24s %s\n", name, state)
			}
			if status.Ready != nil {
				return fmt.Errorf("the playground's API server does not answer: %w; `make up` starts it again", status.Ready)
			}
			fmt.Printf("To use it:\nexport KUBECONFIG=%s\n", here.Playground().Kubeconfig())
			return nil
		},
	}
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl ARGS…", GroupID: groupPlayground, Short: "kubectl, at the playground", DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			playground := here.Playground()
			if _, err := playground.Config(); err != nil && !asksForHelp(args) {
				return err
			}
			if err := here.EnsureControlPlane(command.Context()); err != nil {
				return err
			}
			// No cache of what kinds there are: in a lab they change from one command to the next.
			environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
				return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "KUBECACHEDIR=")
			})
			return become(here.ControlPlane.Path, "kubectl", args,
				append(environment, "KUBECONFIG="+playground.Kubeconfig(), "KUBECACHEDIR="+os.DevNull))
		},
	}
}

// asksForHelp tells kubectl's commands that need no cluster.
func asksForHelp(args []string) bool {
	return len(args) == 0 || args[0] == "help" || slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

func controllerGenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "controller-gen ARGS…", GroupID: groupMaintainers, Short: "The pinned controller-gen, in the working folder",
		DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			program, err := here.ControllerGen(command.Context())
			if err != nil {
				return err
			}
			return become(program, "controller-gen", args, append(os.Environ(), "GOWORK=off"))
		},
	}
}

// become runs a program in our place, under a name: its exit code and its signals are then its own.
func become(program, name string, args, environment []string) error {
	if err := syscall.Exec(program, append([]string{name}, args...), environment); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}
