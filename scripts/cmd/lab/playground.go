// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/report/terminal"
)

func upCommand() *cobra.Command {
	var node bool
	var names []string
	command := &cobra.Command{
		Use: "up", GroupID: groupPlayground, Short: "Start the playground, unless it runs", Args: cli.NoArguments,
		Long: "up starts the playground, unless it runs, and installs the add-ons that are named. Run again, with or without them, it goes\n" +
			"on where an interrupted run ended.",
		Example: "  lab up\n  lab up --addons cert-manager,pebble,ingress",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := known.Check(names); err != nil {
				return err
			}
			if len(names) > 0 && !node {
				return errors.New("--addons and --node=false contradict each other: add-ons are Pods, which need a node")
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			started, err := up(command.Context(), here, node)
			if err != nil {
				return err
			}
			if err := sayNoNode(command.Context(), here); err != nil {
				return err
			}
			if err := installAddons(command.Context(), here, names); err != nil {
				return err
			}
			// What is for people goes to standard error, so that `eval "$(make up)"` works.
			if started {
				fmt.Fprintf(os.Stderr, "The playground is running: Kubernetes %s.\n", here.ControlPlane.Version)
			} else {
				fmt.Fprintln(os.Stderr, "The playground is already running.")
			}
			if terminal.Detect(os.Stdout, os.Getenv).Interactive {
				fmt.Fprintln(os.Stderr, "For kubectl and lab in this shell, type these two lines, or `eval \"$(make up)\"`, which runs them:")
			}
			fmt.Print(shellLines(here))
			return nil
		},
	}
	command.Flags().BoolVar(&node, "node", true,
		"give it a node, so that Pods run, where this machine can have one; a playground that runs otherwise is started again with what is in it")
	command.Flags().StringSliceVar(&names, "addons", nil,
		"install these add-ons, and wait until they are usable: "+strings.Join(known.Names(), ", "))
	return command
}

// up starts the playground, with a node or without, unless it runs so.
func up(ctx context.Context, here *checkout.Checkout, node bool) (started bool, err error) {
	var parts embedded.NodeParts
	if node {
		parts, err = here.EnsureNode(ctx)
	} else {
		err = here.EnsureControlPlane(ctx)
	}
	if err != nil {
		return false, err
	}
	if err := writeKubectl(here); err != nil {
		return false, err
	}
	if node {
		started, err = here.Playground().UpWithNode(ctx, here.ControlPlane, parts)
	} else {
		started, err = here.Playground().Up(ctx, here.ControlPlane)
	}
	if err != nil {
		return started, err
	}
	return started, unregisterServers(ctx, here.Playground())
}

// installAddons installs add-ons in the playground, and returns when they are usable. What it waits for is shown.
func installAddons(ctx context.Context, here *checkout.Checkout, names []string) error {
	if len(names) == 0 {
		return nil
	}
	status, err := here.Playground().Status(ctx)
	if err != nil {
		return err
	}
	if !status.HasNode() {
		return fmt.Errorf("add-ons are Pods, and the playground has no node: %s", status.NoNode)
	}
	if err := here.EnsureAddons(ctx, names); err != nil {
		return err
	}
	began := time.Now()
	if err := here.Installer().Install(ctx, here.Playground().Kubeconfig(), names, func(line string) {
		fmt.Fprintln(os.Stderr, "  "+line)
	}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Usable after %.1f s: %s.\n", time.Since(began).Seconds(), strings.Join(names, ", "))
	return nil
}

// printAddons prints which add-ons the playground has. Where none was ever installed, nothing is asked.
func printAddons(ctx context.Context, here *checkout.Checkout) error {
	installer := here.Installer()
	if _, err := os.Stat(installer.Program); err != nil {
		return nil //nolint:nilerr // what installs add-ons was never built
	}
	states, err := installer.States(ctx, here.Playground().Kubeconfig(), known.Names())
	if err != nil {
		return fmt.Errorf("asking for the add-ons: %w", err)
	}
	for _, state := range states {
		if state.Installed == "" {
			continue
		}
		word := "not usable"
		if state.Usable {
			word = "usable"
		}
		fmt.Printf("  %-24s %s, %s: %s\n", state.Name, state.Installed, word, state.Detail)
	}
	return nil
}

// sayNoNode says why Pods stay Pending, if a node was asked for and could not be had.
func sayNoNode(ctx context.Context, here *checkout.Checkout) error {
	status, err := here.Playground().Status(ctx)
	if err == nil && status.NoNode != "" {
		fmt.Fprintf(os.Stderr, "It has no node, so Pods stay Pending: %s\n", status.NoNode)
	}
	return err
}

// binDir is the folder with the programs that a person can call.
func binDir(here *checkout.Checkout) string { return filepath.Join(here.Root, ".cache", "bin") }

// kubectlScript is the kubectl of those who have none on their PATH. Their scripts find it there, too, unlike an alias.
const kubectlScript = `#!/bin/sh
# kubectl at $KUBECONFIG, or else at the playground; "make up" has written this file. Nothing is remembered of which kinds
# there are, since in a lab they change from one command to the next.
root=$(cd "$(dirname "$0")/%s" && pwd)
export KUBECONFIG="${KUBECONFIG:-$root/%s}" KUBECACHEDIR=/dev/null
exec "$root/%s" kubectl "$@"
`

func writeKubectl(here *checkout.Checkout) error {
	var paths [3]string
	for i, way := range [][2]string{
		{binDir(here), here.Root}, {here.Root, here.Playground().Kubeconfig()}, {here.Root, here.ControlPlane.Path},
	} {
		relative, err := filepath.Rel(way[0], way[1])
		if err != nil {
			return fmt.Errorf("writing kubectl: %w", err)
		}
		paths[i] = relative
	}
	if err := os.MkdirAll(binDir(here), 0o755); err != nil {
		return fmt.Errorf("making the folder for kubectl: %w", err)
	}
	file, content := filepath.Join(binDir(here), "kubectl"), fmt.Sprintf(kubectlScript, paths[0], paths[1], paths[2])
	if have, err := os.ReadFile(file); err == nil && string(have) == content {
		return nil
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("writing kubectl: %w", err)
	}
	return nil
}

// shellLines bring the playground into a person's shell. A kubectl that they have comes before ours.
func shellLines(here *checkout.Checkout) string {
	return fmt.Sprintf("export KUBECONFIG=%s\nexport PATH=\"$PATH\":%s\n", quoted(here.Playground().Kubeconfig()), quoted(binDir(here)))
}

// quoted is a path as a shell reads it.
func quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./+@:,-]+$`)

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", GroupID: groupPlayground, Short: "Stop the playground and remove everything in it", Args: cli.NoArguments,
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
			if status.NoNode != "" {
				fmt.Printf("  %-24s there is none: %s\n", "node", status.NoNode)
			}
			if err := unusable(status); err != nil {
				return err
			}
			if err := printAddons(command.Context(), here); err != nil {
				return err
			}
			fmt.Printf("For kubectl and lab in your shell:\n%s", shellLines(here))
			return nil
		},
	}
}

// unusable says why the playground can't be used: a program of it that has ended explains more than what the API server
// answers.
func unusable(status *embedded.PlaygroundStatus) error {
	ended := slices.DeleteFunc(slices.Sorted(maps.Keys(status.Programs)), func(name string) bool { return status.Programs[name] })
	switch {
	case status.Ready == nil:
		return nil
	case len(ended) > 0:
		return fmt.Errorf("the playground can't be used, because %s ended: `make up` starts it again", english.WordSeries(ended, "and"))
	}
	return fmt.Errorf("the playground's API server can't be used: %w: `make up` starts it again", status.Ready)
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl ARGS…", GroupID: groupPlayground, Short: "Run kubectl against the playground", DisableFlagParsing: true,
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
		Use: "controller-gen ARGS…", GroupID: groupMaintainers, Short: "Run the pinned controller-gen in the working folder",
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
			if err := fetchModules(command.Context(), here, ".", ""); err != nil {
				return err
			}
			return become(program, "controller-gen", args, gobuild.Environment())
		},
	}
}

func clientsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "clients", GroupID: groupMaintainers, Args: cli.NoArguments,
		Short: "Make clientset, listers and informers of the module in the working folder, by the pinned client-gen, lister-gen and informer-gen",
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			if wanted, err := clientgen.Wanted(dir); err != nil {
				return err
			} else if !wanted {
				return fmt.Errorf("%s: %w", dir, clientgen.ErrNoTypes)
			}
			generator, err := clientgen.New(command.Context(), here)
			if err != nil {
				return err
			}
			if err := fetchModules(command.Context(), here, ".", ""); err != nil {
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
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			dir, err := here.Assets(command.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), dir)
			return nil
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
