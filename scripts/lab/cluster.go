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
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/stage"
	"lva.io/operators/scripts/stage/kind"
	"lva.io/operators/scripts/stage/pod"
	"lva.io/operators/scripts/stage/shared"
)

// The kinds of clusters, as the flag and the report call them.
const (
	onEmbedded = "embedded"
	onKind     = "kind"
	onExisting = "existing"
)

// clusterFlags say where: on a fresh cluster, or on one that is there and that others use, too.
type clusterFlags struct {
	cluster, address string
	local            bool
}

func (f *clusterFlags) register(command *cobra.Command, otherwise string) {
	command.Flags().StringVar(&f.cluster, "cluster", "",
		"where: kind, kind:NAME, or context:NAME for a context of your kubeconfig (default: "+otherwise+")")
	command.Flags().BoolVar(&f.local, "local", false, "on kind: run the operator on this machine instead of as a Pod")
	command.Flags().StringVar(&f.address, "address", "", "the IP address at which that cluster reaches this machine (default: found out)")
}

// parse splits the flag into a kind of cluster and a name.
func (f *clusterFlags) parse() (on, name string, err error) {
	sort, name, _ := strings.Cut(f.cluster, ":")
	switch {
	case f.address != "" && net.ParseIP(f.address) == nil:
		return "", "", fmt.Errorf("--address %s is not an IP address", f.address)
	case (sort == "" || sort == onEmbedded) && (f.local || f.address != ""):
		return "", "", errors.New("--local and --address are for --cluster kind and context:NAME: on the embedded cluster the operator always runs on this machine")
	case f.cluster == "" || f.cluster == onEmbedded:
		return onEmbedded, "", nil
	case sort == onKind:
		return onKind, cmp.Or(name, docker.DefaultCluster), nil
	case sort == "context" && name != "":
		return onExisting, name, nil
	}
	return "", "", fmt.Errorf("--cluster %s is none: write kind, kind:NAME, or context:NAME; `kubectl config get-contexts -o name` lists the contexts", f.cluster)
}

// embedded reports whether nothing else was asked for.
func (f *clusterFlags) embedded() bool {
	on, _, err := f.parse()
	return err == nil && on == onEmbedded
}

// system is the operating system that the operator is built for: in a Pod it is not this machine's. Empty: this machine's.
func (f *clusterFlags) system() string {
	if on, _, err := f.parse(); err == nil && on == onKind && !f.local {
		return "linux"
	}
	return ""
}

// start is how a run of a lab gets its stage, and on what kind of cluster that is.
func (f *clusterFlags) start(ctx context.Context, here *checkout.Checkout, lab *manifest.Lab) (start stage.Start, on string, err error) {
	if f.embedded() {
		return coldStart(here), onEmbedded, nil
	}
	there, on, err := f.there(ctx, here)
	if err != nil {
		return nil, on, err
	}
	if on == onKind && !f.local && lab.Operator {
		there.Pods = &pod.Place{
			Nodes:   kind.Nodes{Cluster: strings.TrimPrefix(there.Context, kindContext), Store: images.StoreOf(here.Root)},
			Address: there.Address, Kubectl: here.ControlPlane.Path,
		}
	}
	// Whoever wrote the wrong name, or is not let in, hears it before anything is built.
	_, err = existing.Open(ctx, there.File, there.Context)
	return there.Start, on, err
}

// kindContext is how kind begins the name of a cluster's context.
const kindContext = "kind-"

// there is a cluster that is there. Operators run on this machine.
func (f *clusterFlags) there(ctx context.Context, here *checkout.Checkout) (there shared.Cluster, on string, err error) {
	on, name, err := f.parse()
	if err != nil {
		return there, "", err
	}
	there.Address = f.address
	if on == onExisting {
		there.Context = name
		// That a kind cluster's API server is at 127.0.0.1 does not say where it reaches us.
		if cluster, ok := strings.CutPrefix(name, kindContext); ok && there.Address == "" {
			if nodes, err := docker.Nodes(ctx, cluster); err == nil && len(nodes) > 0 {
				there.Address, err = docker.Gateway(ctx)
				return there, on, err
			}
		}
		return there, on, nil
	}
	nodes, err := docker.Nodes(ctx, name)
	if err != nil {
		return there, on, err
	}
	there.Context, there.File, there.Audit = kindContext+name, docker.Kubeconfig(here.Root, name), kind.AuditLog{Node: nodes[0]}
	if _, err := os.Stat(there.File); errors.Is(err, fs.ErrNotExist) {
		return there, on, fmt.Errorf("the kind cluster %s was not created by `make cluster` of this checkout, which would have left %s: "+
			"use --cluster context:kind-%s", name, there.File, name)
	}
	gateway, err := docker.Gateway(ctx)
	there.Address = cmp.Or(there.Address, gateway)
	return there, on, err
}
