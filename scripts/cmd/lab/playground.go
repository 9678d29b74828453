// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/playground"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/stage/shared"
	"lva.io/operators/scripts/grading/work"
)

func upCommand() *cobra.Command {
	var node bool
	var names []string
	command := &cobra.Command{
		Use: "up", GroupID: groupPlayground, Short: "Start the playground if it is not running", Args: cli.NoArguments,
		Long: "up starts the playground if it is not running, and installs the named add-ons. " +
			"Run it again, with or without them,\n" +
			"to resume an interrupted run.",
		Example: "  lab up\n  lab up --addons cert-manager,pebble,ingress",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := known.Check(names); err != nil {
				return err
			}
			if len(names) > 0 && !node {
				return errors.New("--addons and --node=false cannot be combined: add-ons are Pods, which need a node")
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			started, err := playground.Up(command.Context(), repo, node)
			if err != nil {
				return err
			}
			if err := warnNoNode(command.Context(), repo); err != nil {
				return err
			}
			if err := playground.InstallAddons(command.Context(), repo, names, os.Stderr); err != nil {
				return err
			}
			// Messages for people go to standard error, so that `eval "$(make up)"` works.
			if started {
				fmt.Fprintf(os.Stderr, "The playground is running: Kubernetes %s.\n", repo.ControlPlane.Version)
			} else {
				fmt.Fprintln(os.Stderr, "The playground is already running.")
			}
			if terminal.Detect(os.Stdout, os.Getenv).Interactive {
				fmt.Fprintln(os.Stderr, "For kubectl and lab in this shell, "+
					"type these two lines, or `eval \"$(make up)\"`, which runs them:")
			}
			fmt.Print(playground.ShellLines(repo))
			return nil
		},
	}
	command.Flags().BoolVar(&node, "node", true,
		"give it a node, so that Pods run, where this machine can have one; "+
			"a playground that runs otherwise is started again with what is in it")
	command.Flags().StringSliceVar(&names, "addons", nil,
		"install these add-ons, and wait until they are usable: "+strings.Join(known.Names(), ", "))
	return command
}

// printAddons prints which add-ons the playground has.
func printAddons(ctx context.Context, repo *checkout.Checkout) error {
	states, err := playground.Addons(ctx, repo)
	if err != nil {
		return err
	}
	for _, state := range states {
		word := "not usable"
		if state.Usable {
			word = "usable"
		}
		fmt.Printf("  %-24s %s, %s: %s\n", state.Name, state.Installed, word, state.Detail)
	}
	return nil
}

// warnNoNode prints why Pods stay Pending, if the playground should have a node and can't.
func warnNoNode(ctx context.Context, repo *checkout.Checkout) error {
	status, err := repo.Playground().Status(ctx)
	if err == nil && status.NoNode != "" {
		fmt.Fprintf(os.Stderr, "It has no node, so Pods stay Pending: %s\n", status.NoNode)
	}
	return err
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", GroupID: groupPlayground,
		Short: "Stop the playground and remove everything in it", Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			was, err := repo.Playground().Down()
			if err != nil {
				return err
			}
			if was {
				fmt.Println("The playground is gone.")
			} else {
				fmt.Println("There was no playground.")
			}
			return nil
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", GroupID: groupPlayground, Short: "Show which parts of the playground run", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			status, err := repo.Playground().Status(command.Context())
			if err != nil {
				return err
			}
			fmt.Printf("playground  Kubernetes %s at %s, since %s\n",
				status.Version, status.Host, status.Started.Format("2 Jan 15:04"))
			for _, name := range slices.Sorted(maps.Keys(status.Programs)) {
				state := "runs"
				if !status.Programs[name] {
					state = "has ended"
				}
				fmt.Printf("  %-24s %s\n", name, state)
			}
			if status.NoNode != "" {
				fmt.Printf("  %-24s there is none: %s\n", "node", status.NoNode)
			}
			if err := playground.Unusable(status); err != nil {
				return err
			}
			if err := printAddons(command.Context(), repo); err != nil {
				return err
			}
			fmt.Printf("For kubectl and lab in your shell:\n%s", playground.ShellLines(repo))
			return nil
		},
	}
}

func runCommand() *cobra.Command {
	var dir, main string
	var solution bool
	var placement clusterFlags
	command := &cobra.Command{
		Use: "run N", GroupID: groupPlayground, Short: "Run a lab's operator against the playground, with its own role",
		Long: "run installs the lab's API into the playground and runs its operator there until Ctrl-C, " +
			"under an account with\n" +
			"exactly the rights that its markers ask for. It is the lecture's `make install run`. " +
			"The operator's webhooks are\n" +
			"registered, and it finds the services of its lab. --dir without N is an operator of no lab.\n" +
			"With --cluster it runs on this machine, too, against a kind cluster or one of your kubeconfig, " +
			"whose Services then lead\n" +
			"here. Afterwards everything that was installed there is removed.",
		Args: func(command *cobra.Command, args []string) error {
			if dir != "" && len(args) == 0 {
				return nil
			}
			return exactlyOneLab(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			lab := repo.LabOf(dir)
			if len(args) > 0 {
				chosen, err := (&choiceFlags{work.Selection{Dir: dir, Main: main, Solution: solution}}).choose(args[0])
				if err != nil {
					return err
				}
				lab, dir = chosen.Lab, chosen.Dir
			}
			operator := operatorIn(repo, lab, dir, main)
			if placement.Embedded() {
				return operator.Run(command.Context())
			}
			return operator.RunShared(command.Context(), func(ctx context.Context) (shared.Cluster, error) {
				target, _, err := placement.ExistingCluster(ctx, repo)
				return target, err
			})
		},
	}
	command.Flags().Var((*cli.Folder)(&dir), "dir",
		"a Go module of kubebuilder's layout, instead of the lab's folder here")
	command.Flags().StringVar(&main, "main", "", mainUsage)
	command.Flags().BoolVar(&solution, "solution", false, "the solution, instead of the lab")
	cli.Exclusive(command, "dir", "solution")
	placement.registerCluster(command, "the playground")
	return command
}

// operatorIn returns the operator in a folder. Its output is that of this command. The lab may be nil.
func operatorIn(repo *checkout.Checkout, lab *manifest.Lab, dir, main string) *playground.Operator {
	return &playground.Operator{
		Checkout: repo, Lab: lab, Dir: dir, Main: main,
		Fetch: func(ctx context.Context, dir, system string) error {
			return playground.FetchModules(ctx, repo, dir, system)
		},
		Out: os.Stdout, Err: os.Stderr,
	}
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl ARGS…", GroupID: groupPlayground,
		Short: "Run kubectl against the playground", DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if _, err := repo.Playground().Config(); err != nil && !playground.KubectlNeedsNoCluster(args) {
				return err
			}
			if err := repo.EnsureControlPlane(command.Context()); err != nil {
				return err
			}
			return become(repo.ControlPlane.Path, "kubectl", args, playground.KubectlEnvironment(repo, os.Environ()))
		},
	}
}

func controllerGenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "controller-gen ARGS…", GroupID: groupMaintainers,
		Short:              "Run the pinned controller-gen in the working folder",
		DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			program, err := repo.ControllerGen(command.Context())
			if err != nil {
				return err
			}
			if err := playground.FetchModules(command.Context(), repo, ".", ""); err != nil {
				return err
			}
			return become(program, "controller-gen", args, gobuild.Environment())
		},
	}
}

func clientsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "clients", GroupID: groupMaintainers, Args: cli.NoArguments,
		Short: "Make clientset, listers and informers of the module in the working folder, " +
			"by the pinned client-gen, lister-gen and informer-gen",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			if wanted, err := clientgen.Requested(dir); err != nil {
				return err
			} else if !wanted {
				return fmt.Errorf("%s: %w", dir, clientgen.ErrNoTypes)
			}
			generator, err := clientgen.New(command.Context(), repo)
			if err != nil {
				return err
			}
			if err := playground.FetchModules(command.Context(), repo, ".", ""); err != nil {
				return err
			}
			return generator.Generate(command.Context(), dir)
		},
	}
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "assets", GroupID: groupMaintainers, Args: cli.NoArguments,
		Short: "Print the folder with etcd, kube-apiserver and kubectl, for envtest's KUBEBUILDER_ASSETS",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			dir, err := repo.Assets(command.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), dir)
			return nil
		},
	}
}

// become replaces this process by a program, under a name, so that exit codes and signals are the program's own.
func become(program, name string, args, environment []string) error {
	if err := syscall.Exec(program, append([]string{name}, args...), environment); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}
