// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
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

// kubectlTimeout is how long kubectl waits until deleted objects are gone, such as those with finalizers.
const kubectlTimeout = 90 * time.Second

// Target is the cluster to which an operator is deployed: the playground, or a kind cluster.
type Target struct {
	// Kind is the name of the kind cluster. Empty: the playground.
	Kind string
	// Find returns the kubeconfig file of the kind cluster. It is not called for the playground.
	Find func(context.Context) (kubeconfig string, err error)
}

// Kubeconfig returns the kubeconfig file of the cluster. It returns an error if the cluster is a playground that does
// not run.
func (t Target) Kubeconfig(ctx context.Context, repo *checkout.Checkout) (string, error) {
	if t.Kind == "" {
		_, err := repo.Playground().Config()
		return repo.Playground().Kubeconfig(), err
	}
	return t.Find(ctx)
}

// needNode returns an error if the target is a playground without a node.
func (t Target) needNode(ctx context.Context, repo *checkout.Checkout) error {
	if t.Kind != "" {
		return nil
	}
	status, err := repo.Playground().Status(ctx)
	switch {
	case err != nil || status.HasNode():
		return err
	case status.NoNode != "":
		return fmt.Errorf("the playground has no node to run the operator: %s; "+
			"or use a kind cluster with CLUSTER=kind", status.NoNode)
	}
	return errors.New("the playground has no node to run the operator: `make up` starts it again with one")
}

// BuildImage builds an image of the operator for Linux, and keeps it in the checkout's store. An error of the operator
// is a *submission.Problem.
func (o *Operator) BuildImage(ctx context.Context, reference string) error {
	return o.withBuilder(ctx, func(ctx context.Context, b *submission.Builder) error {
		if err := b.Build(ctx); err != nil {
			return err
		}
		built, err := images.StoreOf(o.Checkout.Root).FromProgram(ctx, reference, b.Program())
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "%s is %s\n", built.Reference, built.ID)
		return nil
	})
}

// LoadImage builds an image of the operator, as BuildImage does, and loads it into the nodes of a cluster. It returns
// an error if the cluster has no nodes.
func (o *Operator) LoadImage(ctx context.Context, reference string, to Target) error {
	store := images.StoreOf(o.Checkout.Root)
	if err := to.needNode(ctx, o.Checkout); err != nil {
		return err
	}
	if to.Kind != "" {
		if _, err := docker.Nodes(ctx, to.Kind); err != nil {
			return err
		}
	}
	return o.withBuilder(ctx, func(ctx context.Context, b *submission.Builder) error {
		if err := b.Build(ctx); err != nil {
			return err
		}
		if to.Kind == "" {
			// The playground's node runs images from the store.
			if _, err := store.FromProgram(ctx, reference, b.Program()); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "The playground's node has %s\n", reference)
			return nil
		}
		nodes := kind.Nodes{Cluster: to.Kind, Store: store}
		if err := nodes.Load(ctx, reference, b.Program()); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "The nodes of %s have %s\n", to.Kind, reference)
		return nil
	})
}

// Deploy generates CRD, role and webhooks from the operator's markers again, and applies its config/default, with an
// image in place of the one that is named there. The nodes must already have the image: see LoadImage. Deploy also
// deploys the freezer if the operator calls its Service in the cluster. If kubectl has printed an error, Deploy returns
// cli.ErrReported.
func (o *Operator) Deploy(ctx context.Context, image string, to Target) error {
	if err := to.needNode(ctx, o.Checkout); err != nil {
		return err
	}
	if o.Lab != nil && o.Lab.Stage == manifest.Deployed && slices.Contains(o.Lab.Services, freezer.Service) {
		if err := o.deployFreezer(ctx, to); err != nil {
			return err
		}
	}
	return o.kubectl(ctx, to, image, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// Undeploy removes from a cluster everything that Deploy has applied, except the freezer, and waits at most 90 s until
// it is gone. If kubectl has printed an error, Undeploy returns cli.ErrReported.
func (o *Operator) Undeploy(ctx context.Context, from Target) error {
	return o.kubectl(ctx, from, "", "delete", "--ignore-not-found", "--timeout", kubectlTimeout.String(), "-f", "-")
}

// deployFreezer deploys the freezer to the cluster, because the operator of the lab calls its Service there. Undeploy
// keeps the freezer with its data.
func (o *Operator) deployFreezer(ctx context.Context, to Target) error {
	catalogue, err := images.Load()
	if err != nil {
		return err
	}
	image, err := catalogue.Image(freezer.Image)
	if err != nil {
		return err
	}
	built, err := o.Checkout.EnsureImages(ctx, []images.Image{image})
	if err != nil {
		return err
	}
	if to.Kind != "" {
		nodes := kind.Nodes{Cluster: to.Kind, Store: images.StoreOf(o.Checkout.Root)}
		if err := nodes.LoadImages(ctx, built...); err != nil {
			return err
		}
	}
	kubeconfig, err := to.Kubeconfig(ctx, o.Checkout)
	if err != nil {
		return err
	}
	return o.withBuilder(ctx, func(ctx context.Context, b *submission.Builder) error {
		return o.apply(ctx, b, kubeconfig, freezer.Manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	})
}

// withBuilder calls do with a builder of the operator, which builds for Linux.
func (o *Operator) withBuilder(ctx context.Context, do func(context.Context, *submission.Builder) error) (err error) {
	opened, err := submission.Open(o.Dir, o.Main)
	if err != nil {
		return err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	b := &submission.Builder{
		Submission: opened, Scope: scope, Cache: o.Checkout.BuildCache(opened.Dir), System: "linux",
	}
	if b.ControllerGen, err = o.Checkout.ControllerGen(ctx); err != nil {
		return err
	}
	if err := o.Fetch(ctx, b.Dir, b.System); err != nil {
		return err
	}
	return do(ctx, b)
}

// kubectl runs kubectl at a cluster with the rendered config/default.
func (o *Operator) kubectl(ctx context.Context, at Target, image string, args ...string) error {
	kubeconfig, err := at.Kubeconfig(ctx, o.Checkout)
	if err != nil {
		return err
	}
	return o.withBuilder(ctx, func(ctx context.Context, b *submission.Builder) error {
		if err := o.Checkout.EnsureControlPlane(ctx); err != nil { // kubectl is part of it
			return err
		}
		manifests, err := b.Generate(ctx)
		if err != nil {
			return err
		}
		content, err := pod.Content(ctx, o.Checkout.ControlPlane.Path, b, manifests, image)
		if err != nil {
			return err
		}
		return o.apply(ctx, b, kubeconfig, content, args...)
	})
}

// apply runs kubectl at a cluster. A file with the manifests replaces the last argument.
func (o *Operator) apply(
	ctx context.Context, b *submission.Builder, kubeconfig string, content []byte, args ...string,
) error {
	file := filepath.Join(b.Scope.Dir, "deploy.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	args[len(args)-1] = file
	mistakes := limited.NewOutput(1) // records only whether there are any
	p, err := b.Scope.Start(process.Spec{
		Name: "kubectl", Path: o.Checkout.ControlPlane.Path, Args: append([]string{"kubectl"}, args...),
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + b.Scope.Dir, "KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + os.DevNull,
		},
		Stdout: o.Out, Stderr: io.MultiWriter(o.Err, mistakes),
	})
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		if mistakes.String() != "" && ctx.Err() == nil {
			return cli.ErrReported
		}
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return nil
}
