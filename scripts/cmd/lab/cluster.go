// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/kind"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/stage/pod"
	"lva.io/operators/scripts/grading/stage/shared"
)

// These are the kinds of clusters, as the flag and the report name them.
const (
	onEmbedded = "embedded"
	onKind     = "kind"
	onExisting = "existing"
)

// clusterFlags select a fresh cluster, or an existing one that others use, too.
type clusterFlags struct {
	cluster, address string
	pod, process     bool
}

func (f *clusterFlags) register(command *cobra.Command, otherwise string) {
	f.registerCluster(command, otherwise)
	command.Flags().BoolVar(&f.pod, "pod", false,
		"run the operator as a Pod of the cluster (default: on kind, and if labs.yaml requires it)")
	command.Flags().BoolVar(&f.process, "process", false,
		"run the operator as a process of this machine (default: elsewhere)")
	cli.Exclusive(command, "pod", "process")
}

// registerCluster registers the flags of a command whose operator is always a process of this machine, or that runs
// none.
func (f *clusterFlags) registerCluster(command *cobra.Command, otherwise string) {
	command.Flags().StringVar(&f.cluster, "cluster", "",
		"where: kind, kind:NAME, or context:NAME for a context of your kubeconfig (default: "+otherwise+")")
	command.Flags().StringVar(&f.address, "address", "",
		"the IP address at which that cluster reaches this machine (default: found out)")
}

// parse splits the flag into a kind of cluster and a name.
func (f *clusterFlags) parse() (on, name string, err error) {
	sort, name, _ := strings.Cut(f.cluster, ":")
	switch {
	case f.address != "" && net.ParseIP(f.address) == nil:
		return "", "", fmt.Errorf("--address %s is not an IP address", f.address)
	case (sort == "" || sort == onEmbedded) && f.address != "":
		return "", "", errors.New("--address is for --cluster kind and context:NAME: the embedded cluster is on this machine")
	case sort == "context" && f.pod:
		return "", "", errors.New("--pod is for the embedded cluster and --cluster kind: " +
			"the operator's image cannot be loaded into another cluster")
	case f.cluster == "" || f.cluster == onEmbedded:
		return onEmbedded, "", nil
	case sort == onKind:
		return onKind, cmp.Or(name, docker.DefaultCluster), nil
	case sort == "context" && name != "":
		return onExisting, name, nil
	}
	return "", "", fmt.Errorf("--cluster %s is invalid: write kind, kind:NAME, or context:NAME; "+
		"`kubectl config get-contexts -o name` lists the contexts", f.cluster)
}

// embedded reports whether the user selected no other cluster.
func (f *clusterFlags) embedded() bool {
	on, _, err := f.parse()
	return err == nil && on == onEmbedded
}

// stage returns where the operator of a lab runs.
func (f *clusterFlags) stage(lab *manifest.Lab) manifest.Stage {
	on, _, err := f.parse()
	switch {
	case lab.Stage == manifest.Deployed, lab.Stage == manifest.Process:
		return lab.Stage
	case err != nil, !lab.Operator, f.process:
		return manifest.Process
	case f.pod, on == onKind:
		return manifest.Pod
	case on == onExisting:
		return manifest.Process
	}
	return cmp.Or(lab.Stage, manifest.Process)
}

// onNode reports whether the operator of a lab runs as a Pod of the embedded cluster.
func (f *clusterFlags) onNode(lab *manifest.Lab) bool {
	return f.embedded() && f.stage(lab).Pods()
}

// withNode reports whether the embedded cluster of a lab needs a node, for its operator or for the operator's objects.
func (f *clusterFlags) withNode(lab *manifest.Lab) bool {
	return f.embedded() && lab.NeedsNode(f.stage(lab))
}

// system returns the operating system that the operator is built for. In a Pod it differs from this machine's. Empty:
// this machine's.
func (f *clusterFlags) system(lab *manifest.Lab) string {
	if f.stage(lab).Pods() {
		return "linux"
	}
	return ""
}

// start returns the function that prepares the stage for a run of a lab, and the kind of the cluster.
func (f *clusterFlags) start(
	ctx context.Context, repo *checkout.Checkout, lab *manifest.Lab,
) (start stage.Start, on string, err error) {
	if lab.Stage == manifest.Deployed && f.process {
		return nil, "", fmt.Errorf("lab %s grades a deployment in a cluster: leave out --process", lab.Name)
	}
	if lab.Stage == manifest.Process && f.pod {
		return nil, "", fmt.Errorf(
			"lab %s looks at files that its operator writes on this machine: leave out --pod", lab.Name,
		)
	}
	switch {
	case f.onNode(lab):
		return node.Start(node.Starter(repo, lab), images.StoreOf(repo.Root), repo.ControlPlane.Path), onEmbedded, nil
	case f.withNode(lab):
		return node.StartForProcesses(node.StarterForProcesses(repo, lab)), onEmbedded, nil
	case f.embedded():
		return own.StartServer(repo.ControlPlane), onEmbedded, nil
	}
	target, on, err := f.existingCluster(ctx, repo)
	if err != nil {
		return nil, on, err
	}
	if lab.NeedsNode(lab.Stage) && on == onExisting {
		return nil, on, fmt.Errorf("in lab %s Pods run an image, which cannot be loaded into another cluster: "+
			"grade it on the embedded cluster or with --cluster kind", lab.Name)
	}
	if f.stage(lab).Pods() {
		target.Pods = &pod.Options{
			Nodes: nodesOf(repo, target), Address: target.Address, Kubectl: repo.ControlPlane.Path,
		}
	}
	// A wrong name, or missing access, is reported before anything is built.
	_, err = existing.Open(ctx, target.File, target.Context)
	if err == nil && len(lab.Addons) > 0 {
		err = repo.EnsureInstaller(ctx)
	}
	return equipped(repo, lab, target, on), on, err
}

// equipped returns the stage of an existing cluster. It installs missing add-ons of the lab, which stay installed. If
// the lab's Pods run the course's images, it loads them. This happens when it is the run's turn, because two installs
// at a time would interfere with each other.
func equipped(repo *checkout.Checkout, lab *manifest.Lab, target shared.Cluster, on string) stage.Start {
	if len(lab.Addons) == 0 && !lab.Node {
		return target.Start
	}
	return func(ctx context.Context, progress func(string)) (stage.Stage, error) {
		started, err := target.Start(ctx, progress)
		if err != nil {
			return nil, err
		}
		installer := repo.Installer()
		installer.Shared = on == onExisting
		kubeconfig := started.Cluster().Kubeconfig
		if on == onKind {
			var missing []string // an installed add-on keeps its images
			if missing, err = installer.Missing(ctx, kubeconfig, lab.Addons); err == nil {
				err = loadImages(ctx, repo, nodesOf(repo, target), missing)
			}
		}
		if err == nil && len(lab.Addons) > 0 {
			err = installer.Install(ctx, kubeconfig, lab.Addons, progress)
		}
		if err != nil {
			return nil, errors.Join(err, started.Close())
		}
		return started, nil
	}
}

// loadImages loads the images of add-ons, and the course's own images, into the nodes of a kind cluster, which may be
// older than the course's images.
func loadImages(ctx context.Context, repo *checkout.Checkout, nodes kind.Nodes, addons []string) error {
	catalogue, err := images.Load()
	if err != nil {
		return err
	}
	built, err := repo.EnsureAddonImages(ctx, addons)
	if err != nil {
		return err
	}
	course, err := repo.EnsureImages(ctx, catalogue.Set("course"))
	if err != nil {
		return err
	}
	return nodes.LoadImages(ctx, append(built, course...)...)
}

// kindContext is kind's prefix for the names of contexts.
const kindContext = "kind-"

// nodesOf returns the nodes of a kind cluster.
func nodesOf(repo *checkout.Checkout, cluster shared.Cluster) kind.Nodes {
	return kind.Nodes{Cluster: strings.TrimPrefix(cluster.Context, kindContext), Store: images.StoreOf(repo.Root)}
}

// existingCluster returns the existing cluster that the flags select. Operators run on this machine.
func (f *clusterFlags) existingCluster(
	ctx context.Context, repo *checkout.Checkout,
) (target shared.Cluster, on string, err error) {
	on, name, err := f.parse()
	if err != nil {
		return target, "", err
	}
	target.Address = f.address
	if on == onExisting {
		target.Context = name
		// A kind cluster's API server is at 127.0.0.1, which does not reveal the address at which it reaches us.
		if cluster, ok := strings.CutPrefix(name, kindContext); ok && target.Address == "" {
			if nodes, err := docker.Nodes(ctx, cluster); err == nil && len(nodes) > 0 {
				target.Address, err = docker.Gateway(ctx)
				return target, on, err
			}
		}
		return target, on, nil
	}
	nodes, err := docker.Nodes(ctx, name)
	if err != nil {
		return target, on, err
	}
	target.Context, target.File, target.Audit =
		kindContext+name, docker.Kubeconfig(repo.Root, name), kind.AuditLog{Node: nodes[0]}
	target.FrontProxy = kind.FrontProxy{Node: nodes[0]}
	if _, err := os.Stat(target.File); errors.Is(err, fs.ErrNotExist) {
		return target, on, fmt.Errorf("the kind cluster %s was not created by `make cluster` of this checkout, "+
			"because %s is missing: use --cluster context:kind-%s", name, target.File, name)
	}
	gateway, err := docker.Gateway(ctx)
	target.Address = cmp.Or(target.Address, gateway)
	return target, on, err
}
