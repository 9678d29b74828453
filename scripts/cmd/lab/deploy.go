// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/stage/kind"
	"lva.io/operators/scripts/grading/stage/pod"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/services/freezer"
)

// kubectlTimeout is for what kubectl waits for when things are removed that others hold.
const kubectlTimeout = 90 * time.Second

// onPlayground is the playground, as --cluster of these commands calls it.
const onPlayground = "playground"

// deployFlags are what the commands of a lab's Makefile have in common.
type deployFlags struct {
	dir   string
	where clusterFlags
}

func (f *deployFlags) register(command *cobra.Command) {
	f.registerDir(command)
	command.Flags().StringVar(&f.where.cluster, "cluster", onPlayground, "where: playground, kind, or kind:NAME")
}

func (f *deployFlags) registerDir(command *cobra.Command) {
	f.dir = "."
	command.Flags().Var((*cli.Folder)(&f.dir), "dir", "the folder of the operator's module")
}

func imageCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "image", GroupID: groupPlayground,
		Short: "Make an image of an operator, without Docker, and bring it to the nodes of a cluster", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var build, load deployFlags
	building := &cobra.Command{
		Use: "build IMAGE", Short: "Make the image: `make docker-build` of a lab",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
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
		Use: "load IMAGE", Short: "Bring it to the nodes: `make docker-push` of a lab",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return load.image(command.Context(), here, args[0])
		},
	}
	load.register(loading)
	command.AddCommand(building, loading)
	return command
}

func deployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "deploy IMAGE", GroupID: groupPlayground, Short: "Deploy an operator by its config/default: `make deploy` of a lab",
		Long: "deploy generates CRD, role and webhooks from the markers again, " +
			"puts config/default together with kustomize, lets the operator's\n" +
			"container have the image, and applies that. The lab's folder stays as it is.",
		Args: cli.OneArgument("image", "operator-labs/icecream-operator:v1"),
		RunE: func(command *cobra.Command, args []string) error {
			if _, err := named.Complete(args[0]); err != nil {
				return err
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := flags.needNode(command.Context(), here); err != nil {
				return err
			}
			if lab := labOf(here, flags.dir); lab != nil && lab.Stage == manifest.Deployed && slices.Contains(lab.Services, freezer.Service) {
				if err := flags.freezer(command.Context(), here); err != nil {
					return err
				}
			}
			return flags.kubectl(command.Context(), here, args[0], "apply", "--server-side", "--force-conflicts", "-f", "-")
		},
	}
	flags.register(command)
	return command
}

func undeployCommand() *cobra.Command {
	var flags deployFlags
	command := &cobra.Command{
		Use: "undeploy", GroupID: groupPlayground, Short: "Remove the deployed operator: `make undeploy` of a lab", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return flags.kubectl(command.Context(), here, "", "delete", "--ignore-not-found", "--timeout", kubectlTimeout.String(), "-f", "-")
		},
	}
	flags.register(command)
	return command
}

// image makes an image of what is in the folder, and brings it to the nodes.
func (f *deployFlags) image(ctx context.Context, here *checkout.Checkout, reference string) error {
	store, name := images.StoreOf(here.Root), ""
	if err := f.needNode(ctx, here); err != nil {
		return err
	}
	if f.where.cluster != onPlayground {
		var err error
		if name, err = f.kind(); err != nil {
			return err
		}
		if _, err := docker.Nodes(ctx, name); err != nil {
			return err
		}
	}
	return f.inWorkshop(ctx, here, func(ctx context.Context, w *submission.Workshop) error {
		if err := w.Build(ctx); err != nil {
			return err
		}
		if name == "" {
			// The playground's node runs what the store has.
			if _, err := store.FromProgram(ctx, reference, w.Program()); err != nil {
				return err
			}
			fmt.Printf("The playground's node has %s\n", reference)
			return nil
		}
		nodes := kind.Nodes{Cluster: name, Store: store}
		if err := nodes.Load(ctx, reference, w.Program()); err != nil {
			return err
		}
		fmt.Printf("The nodes of %s have %s\n", name, reference)
		return nil
	})
}

// freezer brings the freezer into the cluster, since the operator of the lab talks to its Service there. It stays on
// undeploy, with its books.
func (f *deployFlags) freezer(ctx context.Context, here *checkout.Checkout) error {
	catalogue, err := images.Load()
	if err != nil {
		return err
	}
	image, err := catalogue.Image(freezer.Image)
	if err != nil {
		return err
	}
	built, err := here.EnsureImages(ctx, []images.Image{image})
	if err != nil {
		return err
	}
	if f.where.cluster != onPlayground {
		name, err := f.kind()
		if err != nil {
			return err
		}
		if err := (kind.Nodes{Cluster: name, Store: images.StoreOf(here.Root)}).Bring(ctx, built...); err != nil {
			return err
		}
	}
	kubeconfig, err := f.kubeconfig(ctx, here)
	if err != nil {
		return err
	}
	return f.inWorkshop(ctx, here, func(ctx context.Context, w *submission.Workshop) error {
		return apply(ctx, here, w, kubeconfig, freezer.Manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	})
}

// kind is the name of the kind cluster.
func (f *deployFlags) kind() (string, error) {
	on, name, err := f.where.parse()
	if err != nil || on != onKind {
		return "", fmt.Errorf("--cluster %s: write playground, kind, or kind:NAME, "+
			"since only there an image can be brought to the nodes without a registry", f.where.cluster)
	}
	return name, nil
}

// needNode returns an error if it is the playground and that has no node.
func (f *deployFlags) needNode(ctx context.Context, here *checkout.Checkout) error {
	if f.where.cluster != onPlayground {
		return nil
	}
	status, err := here.Playground().Status(ctx)
	switch {
	case err != nil || status.HasNode():
		return err
	case status.NoNode != "":
		return fmt.Errorf("the playground has no node on which the operator could run: %s; "+
			"or take a kind cluster, by CLUSTER=kind", status.NoNode)
	}
	return errors.New("the playground has no node on which the operator could run: `make up` starts it again with one")
}

// kubeconfig is the file by which kubectl gets to the cluster.
func (f *deployFlags) kubeconfig(ctx context.Context, here *checkout.Checkout) (string, error) {
	if f.where.cluster == onPlayground {
		_, err := here.Playground().Config()
		return here.Playground().Kubeconfig(), err
	}
	if _, err := f.kind(); err != nil {
		return "", err
	}
	there, _, err := f.where.there(ctx, here)
	return there.File, err
}

// inWorkshop does something with what is in the folder. What it builds is for Linux.
func (f *deployFlags) inWorkshop(
	ctx context.Context, here *checkout.Checkout, do func(context.Context, *submission.Workshop) error,
) (err error) {
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

// kubectl hands what config/default comes to to kubectl at the cluster.
func (f *deployFlags) kubectl(ctx context.Context, here *checkout.Checkout, image string, args ...string) error {
	kubeconfig, err := f.kubeconfig(ctx, here)
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
		content, err := pod.Content(ctx, here.ControlPlane.Path, w, manifests, image)
		if err != nil {
			return err
		}
		return apply(ctx, here, w, kubeconfig, content, args...)
	})
}

// apply hands manifests to kubectl at a cluster, in place of the last argument.
func apply(ctx context.Context, here *checkout.Checkout, w *submission.Workshop, kubeconfig string, content []byte, args ...string) error {
	file := filepath.Join(w.Scope.Dir, "deploy.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	args[len(args)-1] = file
	mistakes := limited.NewOutput(1) // whether there are any
	p, err := w.Scope.Start(process.Spec{
		Name: "kubectl", Path: here.ControlPlane.Path, Args: append([]string{"kubectl"}, args...),
		Env:    []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Scope.Dir, "KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + os.DevNull},
		Stdout: os.Stdout, Stderr: io.MultiWriter(os.Stderr, mistakes),
	})
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		if mistakes.String() != "" && ctx.Err() == nil {
			return cli.ErrSaid
		}
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return nil
}
