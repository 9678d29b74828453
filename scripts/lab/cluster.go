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
	"lva.io/operators/scripts/grade"
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
	kind, name, _ := strings.Cut(f.cluster, ":")
	switch {
	case f.address != "" && net.ParseIP(f.address) == nil:
		return "", "", fmt.Errorf("--address %s is not an IP address", f.address)
	case (kind == "" || kind == onEmbedded) && (f.local || f.address != ""):
		return "", "", errors.New("--local and --address are for --cluster kind and context:NAME: on the embedded cluster the operator always runs on this machine")
	case f.cluster == "" || f.cluster == onEmbedded:
		return onEmbedded, "", nil
	case kind == onKind:
		return onKind, cmp.Or(name, docker.DefaultCluster), nil
	case kind == "context" && name != "":
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

// start is how a run gets its cluster, and what kind of cluster that is.
func (f *clusterFlags) start(ctx context.Context, here *checkout.Checkout) (start grade.Start, on string, err error) {
	if f.embedded() {
		return coldStart(here), onEmbedded, nil
	}
	shared, on, err := f.shared(ctx, here)
	if err == nil {
		// Whoever wrote the wrong name, or is not let in, hears it before anything is built.
		_, err = existing.Open(ctx, shared.File, shared.Context)
	}
	return shared.Start, on, err
}

// shared is a cluster that is there.
func (f *clusterFlags) shared(ctx context.Context, here *checkout.Checkout) (shared grade.Shared, on string, err error) {
	on, name, err := f.parse()
	if err != nil {
		return shared, "", err
	}
	shared.Address = f.address
	if on == onExisting {
		shared.Context = name
		// That a kind cluster's API server is at 127.0.0.1 does not say where it reaches us.
		if cluster, ok := strings.CutPrefix(name, "kind-"); ok && shared.Address == "" {
			if nodes, err := docker.Nodes(ctx, cluster); err == nil && len(nodes) > 0 {
				shared.Address, err = docker.Gateway(ctx)
				return shared, on, err
			}
		}
		return shared, on, nil
	}
	nodes, err := docker.Nodes(ctx, name)
	if err != nil {
		return shared, on, err
	}
	shared.Context, shared.File, shared.Node = "kind-"+name, docker.Kubeconfig(here.Root, name), nodes[0]
	if _, err := os.Stat(shared.File); errors.Is(err, fs.ErrNotExist) {
		return shared, on, fmt.Errorf("the kind cluster %s was not created by `make cluster` of this checkout, which would have left %s: "+
			"use --cluster context:kind-%s", name, shared.File, name)
	}
	gateway, err := docker.Gateway(ctx)
	if err != nil {
		return shared, on, err
	}
	shared.Address = cmp.Or(shared.Address, gateway)
	if !f.local {
		shared.Pods = &grade.Pods{Cluster: name, Gateway: shared.Address, Store: images.StoreOf(here.Root)}
	}
	return shared, on, nil
}
