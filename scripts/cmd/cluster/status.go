// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/create"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
)

// statusTime is the time limit of a status. A part that has not answered by then is reported as silent.
const statusTime = 10 * time.Second

func statusCommand() *cobra.Command {
	var name, contextName string
	command := &cobra.Command{
		Use: "status", Short: "Show which parts of the cluster exist and are usable, and in which versions",
		Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeoutCause(command.Context(), statusTime, fmt.Errorf("timed out after %s", statusTime))
			defer cancel()
			if contextName != "" {
				return contextStatus(ctx, contextName)
			}
			return status(ctx, name)
		},
	}
	nameFlag(command, &name)
	command.Flags().StringVar(&contextName, "context", "", "the cluster of this context of your kubeconfig instead")
	cli.Exclusive(command, "name", "context")
	return command
}

func status(ctx context.Context, name string) error {
	env, err := environment.Find(name)
	if err != nil {
		return err
	}
	found, err := env.Cluster.Find(ctx)
	if err != nil {
		return err
	}
	again := "`make cluster`"
	if name != docker.DefaultCluster {
		again = "`cluster create --name " + name + "`"
	}
	switch found.State {
	case kind.Absent:
		return fmt.Errorf("there is no cluster %s: %s creates one", name, again)
	case kind.Foreign:
		return fmt.Errorf("the cluster %s exists, and this command did not create it", name)
	case kind.Unfinished:
		return fmt.Errorf("the cluster %s was left incomplete: %s creates it again", name, again)
	case kind.Stopped, kind.Silent:
		fmt.Printf("cluster %s\n", name)
		for _, node := range found.Nodes {
			fmt.Printf("  %-30s %s\n", node.Name, node.Status)
		}
		if found.State == kind.Silent {
			return fmt.Errorf("its API server does not answer: %w; %s waits for it, and prints why it fails", found.Err, again)
		}
		return fmt.Errorf("not all of its nodes are running: %s starts them again", again)
	case kind.Made:
	}
	config, err := env.Cluster.Config()
	if err != nil {
		return err
	}
	profile, err := kind.LoadProfile(found.Marker.Profile)
	if err != nil {
		return err
	}
	fmt.Printf("cluster %s  profile %s, images from %s, since %s\n",
		name, found.Marker.Profile, create.Source(found.Marker.Images), found.Marker.Created.Local().Format("2 Jan 15:04"))
	well, err := report(
		ctx, env.Store, config, create.TargetOf(env.Cluster, config, profile, found.Marker), pinned(found.Marker),
	)
	if err != nil {
		return err
	}
	if len(found.Nodes) != profile.Nodes() {
		well = false
		fmt.Printf("  the profile has %d nodes, and %d are there\n", profile.Nodes(), len(found.Nodes))
	}
	if !well {
		return fmt.Errorf("the cluster %s is not fully usable: %s repairs it, or prints why it can't", name, again)
	}
	if _, err := os.Stat(env.Cluster.Kubeconfig()); err != nil {
		return fmt.Errorf("its kubeconfig is missing (%w): %s writes it", err, again)
	}
	fmt.Printf("To use it:\nexport KUBECONFIG=%s\n", env.Cluster.Kubeconfig())
	return nil
}

// pinned returns the Kubernetes release that a cluster's nodes should have.
func pinned(marker kind.Marker) string {
	wanted := kind.NodeImage
	if marker.Images == create.AirGap {
		catalogue, err := images.Load()
		if err != nil || len(catalogue.Set("node")) == 0 {
			return ""
		}
		wanted = catalogue.Set("node")[0].Reference
	}
	wanted, _, _ = strings.Cut(wanted, "@")
	return wanted[strings.LastIndex(wanted, ":")+1:]
}

func contextStatus(ctx context.Context, name string) error {
	env, err := environment.Find(docker.DefaultCluster)
	if err != nil {
		return err
	}
	cluster, err := existing.Open(ctx, "", name)
	if err != nil {
		return err
	}
	fmt.Printf("context %s  Kubernetes %s\n", name, cluster.Version)
	well, err := report(ctx, env.Store, cluster.Config(), create.ContextTarget(cluster, ""), "")
	if err != nil {
		return err
	}
	if !well {
		return fmt.Errorf("not all of it is usable: `cluster create --context %s` installs the missing parts", name)
	}
	return nil
}

// report prints nodes and add-ons, which it queries at the same time. It returns whether all of them are usable.
func report(
	ctx context.Context, store *images.Store, config *rest.Config, target addons.Target, release string,
) (well bool, err error) {
	var (
		group  sync.WaitGroup
		nodes  []kind.NodeState
		failed error
	)
	all := []addons.Addon{addons.Cilium(store), addons.CertManager(store), addons.Ingress(), addons.Pebble(store)}
	states, errs := make([]addons.State, len(all)), make([]error, len(all))
	group.Go(func() { nodes, failed = kind.NodeStates(ctx, config) })
	for i, addon := range all {
		group.Go(func() { states[i], errs[i] = addon.State(ctx, target) })
	}
	group.Wait()
	if err := errors.Join(append(errs, failed)...); err != nil {
		return false, err
	}
	well = true
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, node := range nodes {
		state := "ready"
		if !node.Ready {
			state, well = "not ready: "+node.Why, false
		}
		fmt.Fprintf(table, "  node %s\t%s\t%s\n", node.Name, node.Version+differs(node.Version, release), state)
	}
	for _, state := range states {
		if state.Installed == "" && (state.Name == known.Ingress || state.Name == known.Pebble) {
			continue // not every cluster has them
		}
		installed := state.Installed
		if installed == "" {
			installed = "-"
		}
		word := "usable"
		if !state.Usable {
			word = "not usable"
			// The network of another cluster need not be Cilium.
			well = well && target.Shared && state.Name == "cilium"
		}
		if state.Detail != "" {
			word += ": " + state.Detail
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", state.Name, installed+differs(state.Installed, state.Pinned), word)
	}
	return well, table.Flush()
}

// differs returns a note if a version is not the pinned one.
func differs(version, pinned string) string {
	if version == "" || pinned == "" || strings.TrimPrefix(version, "v") == strings.TrimPrefix(pinned, "v") {
		return ""
	}
	return " (pinned: " + pinned + ")"
}
