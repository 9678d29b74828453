// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/stage/kind"
	"lva.io/operators/scripts/stage/pod"
	"lva.io/operators/scripts/submission"
)

// kubectlTimeout is for what kubectl waits for when things are removed that others hold.
const kubectlTimeout = 90 * time.Second

// deployFlags are what the commands of a lab's Makefile have in common.
type deployFlags struct {
	dir   string
	where clusterFlags
}

func (f *deployFlags) register(command *cobra.Command) {
	f.registerDir(command)
	command.Flags().StringVar(&f.where.cluster, "cluster", onKind, "the kind cluster: kind, or kind:NAME")
}

func (f *deployFlags) registerDir(command *cobra.Command) {
	f.dir = "."
	command.Flags().Var((*cli.Folder)(&f.dir), "dir", "the folder of the operator's module")
}

func imageCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "image", GroupID: groupPlayground, Short: "Make an image of an operator, without Docker, and bring it to the nodes of a kind cluster", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var build, load deployFlags
	building := &cobra.Command{
		Use: "build IMAGE", Short: "Make the image: `make docker-build` of a lab", Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return build.inWorkshop(command.Context(), here, func(ctx context.Context, w *submission.Workshop) error {
				if err := w.Build(ctx); err != nil {
					return err
				}
				built, err := images.StoreOf(here.Root).FromProgram(ctx, args[0], w.Program())
				if err != nil {
					return err
				}
				fmt.Printf("%s is %s\n", built.Reference, built.ID)
				return nil
			})
		},
	}
	build.registerDir(building)
	loading := &cobra.Command{
		Use: "load IMAGE", Short: "Bring it to the nodes: `make docker-push` of a lab", Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			name, err := load.kind()
			if err != nil {
				return err
			}
			if _, err := docker.Nodes(command.Context(), name); err != nil {
				return err
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return load.inWorkshop(command.Context(), here, func(ctx context.Context, w *submission.Workshop) error {
				if err := w.Build(ctx); err != nil {
					return err
				}
				nodes := kind.Nodes{Cluster: name, Store: images.StoreOf(here.Root)}
				if err := nodes.Load(ctx, args[0], w.Program()); err != nil {
					return err
				}
				fmt.Printf("The nodes of %s have %s\n", name, args[0])
				return nil
			})
		},
	}
	load.register(loading)
	command.AddCommand(building, loading)
	return command
}

func deployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "deploy IMAGE", GroupID: groupPlayground, Short: "Deploy an operator into a kind cluster by its config/default: `make deploy` of a lab",
		Long: "deploy generates CRD, role and webhooks from the markers again, puts config/default together with kustomize, lets the operator's\n" +
			"container have the image, and applies that. The lab's folder stays as it is.",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			return flags.kubectl(command.Context(), args[0], "apply", "--server-side", "--force-conflicts", "-f", "-")
		},
	}
	flags.register(command)
	return command
}

func undeployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "undeploy", GroupID: groupPlayground, Short: "Remove from a kind cluster what deploy brought: `make undeploy` of a lab", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return flags.kubectl(command.Context(), "", "delete", "--ignore-not-found", "--timeout", kubectlTimeout.String(), "-f", "-")
		},
	}
	flags.register(command)
	return command
}

// kind is the name of the kind cluster.
func (f *deployFlags) kind() (string, error) {
	on, name, err := f.where.parse()
	if err == nil && on != onKind {
		err = fmt.Errorf("--cluster %s is no kind cluster: only there an image can be brought to the nodes without a registry", f.where.cluster)
	}
	return name, err
}

// inWorkshop does something with what is in the folder. What it builds is for Linux.
func (f *deployFlags) inWorkshop(ctx context.Context, here *checkout.Checkout, do func(context.Context, *submission.Workshop) error) (err error) {
	opened, err := submission.Open(f.dir, "")
	if err != nil {
		return err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	w := &submission.Workshop{Submission: opened, Scope: scope, Cache: here.BuildCache(opened.Dir), System: "linux"}
	if w.ControllerGen, err = here.ControllerGen(ctx); err != nil {
		return err
	}
	if err := fetchModules(ctx, here, w.Dir, w.System); err != nil {
		return err
	}
	return do(ctx, w)
}

// kubectl hands what config/default comes to to kubectl at the kind cluster.
func (f *deployFlags) kubectl(ctx context.Context, image string, args ...string) error {
	here, err := checkout.Find()
	if err != nil {
		return err
	}
	if _, err := f.kind(); err != nil {
		return err
	}
	there, _, err := f.where.there(ctx, here)
	if err != nil {
		return err
	}
	return f.inWorkshop(ctx, here, func(ctx context.Context, w *submission.Workshop) error {
		if err := here.EnsureControlPlane(ctx); err != nil { // kubectl is part of it
			return err
		}
		manifests, err := w.Generate(ctx)
		if err != nil {
			return err
		}
		deployment, err := pod.Render(ctx, here.ControlPlane.Path, w, manifests)
		if err != nil {
			return err
		}
		content, err := deployment.Content(image)
		if err != nil {
			return err
		}
		file := filepath.Join(w.Scope.Dir, "deploy.yaml")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return fmt.Errorf("writing the manifests: %w", err)
		}
		args[len(args)-1] = file
		var mistakes bytes.Buffer
		p, err := w.Scope.Start(process.Spec{
			Name: "kubectl", Path: here.ControlPlane.Path, Args: append([]string{"kubectl"}, args...),
			Env:    []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Scope.Dir, "KUBECONFIG=" + there.File, "KUBECACHEDIR=" + os.DevNull},
			Stdout: os.Stdout, Stderr: io.MultiWriter(os.Stderr, &mistakes),
		})
		if err != nil {
			return err
		}
		if err := p.Wait(ctx); err != nil {
			if mistakes.Len() > 0 && ctx.Err() == nil {
				return cli.ErrSaid
			}
			return fmt.Errorf("kubectl %s: %w", args[0], err)
		}
		return nil
	})
}
