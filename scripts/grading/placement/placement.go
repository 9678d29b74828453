// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package placement decides where a lab is graded, and starts the stage there: on a fresh embedded cluster, with or
// without a node, on a kind cluster, or on the cluster of a context of the user's kubeconfig. It also decides whether
// the operator is a process of this machine or a Pod. It reads the values of --cluster and the flags beside it, and its
// errors name these flags. The stages themselves are in scripts/grading/stage.
package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/kind"
	"lva.io/operators/scripts/grading/stage/node"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/stage/pod"
	"lva.io/operators/scripts/grading/stage/shared"
)

// These are the kinds of clusters, as --cluster and the report name them.
const (
	Embedded = "embedded"
	Kind     = "kind"
	Existing = "existing"
)

// Placement is a fresh cluster, or an existing one that others use, too. The zero value is a fresh embedded cluster on
// which the operator runs as labs.yaml requires.
type Placement struct {
	// Cluster is kind, kind:NAME, context:NAME for a context of the user's kubeconfig, or embedded. Default: embedded.
	Cluster string
	// Address is the IP address at which an existing cluster reaches this machine. Default: it is found out.
	Address string
	// Pod runs the operator as a Pod of the cluster, and Process as a process of this machine. Default: as labs.yaml
	// requires, and on kind as a Pod.
	Pod, Process bool
}

// Parse splits the flag into a kind of cluster and a name.
func (p Placement) Parse() (on, name string, err error) {
	sort, name, _ := strings.Cut(p.Cluster, ":")
	switch {
	case p.Address != "" && net.ParseIP(p.Address) == nil:
		return "", "", fmt.Errorf("--address %s is not an IP address", p.Address)
	case (sort == "" || sort == Embedded) && p.Address != "":
		return "", "", errors.New("--address is for --cluster kind and context:NAME: the embedded cluster is on this machine")
	case sort == "context" && p.Pod:
		return "", "", errors.New("--pod is for the embedded cluster and --cluster kind: " +
			"the operator's image cannot be loaded into another cluster")
	case p.Cluster == "" || p.Cluster == Embedded:
		return Embedded, "", nil
	case sort == Kind:
		return Kind, cmp.Or(name, docker.DefaultCluster), nil
	case sort == "context" && name != "":
		return Existing, name, nil
	}
	return "", "", fmt.Errorf("--cluster %s is invalid: write kind, kind:NAME, or context:NAME; "+
		"`kubectl config get-contexts -o name` lists the contexts", p.Cluster)
}

// Embedded reports whether the user selected no other cluster.
func (p Placement) Embedded() bool {
	on, _, err := p.Parse()
	return err == nil && on == Embedded
}

// Stage returns where the operator of a lab runs.
func (p Placement) Stage(lab *manifest.Lab) manifest.Stage {
	on, _, err := p.Parse()
	switch {
	case lab.Stage == manifest.Deployed, lab.Stage == manifest.Process:
		return lab.Stage
	case err != nil, !lab.Operator, p.Process:
		return manifest.Process
	case p.Pod, on == Kind:
		return manifest.Pod
	case on == Existing:
		return manifest.Process
	}
	return cmp.Or(lab.Stage, manifest.Process)
}

// OnNode reports whether the operator of a lab runs as a Pod of the embedded cluster.
func (p Placement) OnNode(lab *manifest.Lab) bool {
	return p.Embedded() && p.Stage(lab).Pods()
}

// WithNode reports whether the embedded cluster of a lab needs a node, for its operator or for the operator's objects.
func (p Placement) WithNode(lab *manifest.Lab) bool {
	return p.Embedded() && lab.NeedsNode(p.Stage(lab))
}

// System returns the operating system that the operator is built for. In a Pod it differs from this machine's. Empty:
// this machine's.
func (p Placement) System(lab *manifest.Lab) string {
	if p.Stage(lab).Pods() {
		return "linux"
	}
	return ""
}

// Start returns the function that prepares the stage for a run of a lab, and the kind of the cluster.
func (p Placement) Start(
	ctx context.Context, repo *checkout.Checkout, lab *manifest.Lab,
) (start stage.Start, on string, err error) {
	if lab.Stage == manifest.Deployed && p.Process {
		return nil, "", fmt.Errorf("lab %s grades a deployment in a cluster: leave out --process", lab.Name)
	}
	if lab.Stage == manifest.Process && p.Pod {
		return nil, "", fmt.Errorf(
			"lab %s looks at files that its operator writes on this machine: leave out --pod", lab.Name,
		)
	}
	switch {
	case p.OnNode(lab):
		return node.Start(node.Starter(repo, lab), images.StoreOf(repo.Root), repo.ControlPlane.Path), Embedded, nil
	case p.WithNode(lab):
		return node.StartForProcesses(node.StarterForProcesses(repo, lab)), Embedded, nil
	case p.Embedded():
		return own.StartServer(repo.ControlPlane), Embedded, nil
	}
	target, on, err := p.ExistingCluster(ctx, repo)
	if err != nil {
		return nil, on, err
	}
	if lab.NeedsNode(lab.Stage) && on == Existing {
		return nil, on, fmt.Errorf("in lab %s Pods run an image, which cannot be loaded into another cluster: "+
			"grade it on the embedded cluster or with --cluster kind", lab.Name)
	}
	if p.Stage(lab).Pods() {
		target.Pods = &pod.Options{
			Nodes: NodesOf(repo, target), Address: target.Address, Kubectl: repo.ControlPlane.Path,
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
		installer.Shared = on == Existing
		kubeconfig := started.Cluster().Kubeconfig
		if on == Kind {
			var missing []string // an installed add-on keeps its images
			if missing, err = installer.Missing(ctx, kubeconfig, lab.Addons); err == nil {
				err = loadImages(ctx, repo, NodesOf(repo, target), missing)
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

// NodesOf returns the nodes of a kind cluster.
func NodesOf(repo *checkout.Checkout, cluster shared.Cluster) kind.Nodes {
	return kind.Nodes{Cluster: strings.TrimPrefix(cluster.Context, kindContext), Store: images.StoreOf(repo.Root)}
}

// ExistingCluster returns the existing cluster that the flags select. Operators run on this machine.
func (p Placement) ExistingCluster(
	ctx context.Context, repo *checkout.Checkout,
) (target shared.Cluster, on string, err error) {
	on, name, err := p.Parse()
	if err != nil {
		return target, "", err
	}
	target.Address = p.Address
	if on == Existing {
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
