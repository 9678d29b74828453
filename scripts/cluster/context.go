// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/kind"
)

// onContext installs what can be installed on a cluster that is somebody's: cert-manager, unless it is there. The network
// is the cluster's own business, and is only looked at.
func onContext(ctx context.Context, flags *createFlags) error {
	here, err := find(defaultCluster)
	if err != nil {
		return err
	}
	if flags.images == imagesAirGap {
		return errors.New("--context and --air-gap contradict each other: images can't be put into nodes that are not ours; give the cluster a registry that it reaches")
	}
	var target addons.Target
	folder := filepath.Join(here.root, ".cache", "context")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("making a folder for the kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(folder, strings.Map(safeInFile, flags.context)+".kubeconfig")
	if err := here.steps.run(ctx, []step{
		{"preflight", preflightTime, func(ctx context.Context, say func(string)) (string, error) {
			say("asking the cluster who it is")
			cluster, err := existing.Open(ctx, "", flags.context)
			if err != nil {
				return "", err
			}
			if err := cluster.WriteKubeconfig(kubeconfig); err != nil {
				return "", err
			}
			target = contextTarget(cluster, kubeconfig)
			return "Kubernetes " + cluster.Version, nil
		}},
		{"Cilium", preflightTime, func(ctx context.Context, _ func(string)) (string, error) {
			state, err := addons.Cilium(here.store).State(ctx, target)
			if err != nil {
				return "", err
			}
			if state.Installed == "" {
				return "the cluster's network is another one; it stays as it is", nil
			}
			return described(state), nil
		}},
		{"nodes Ready", flags.stepTime, func(ctx context.Context, say func(string)) (string, error) {
			states, err := kind.NodeStates(ctx, target.Config)
			if err != nil {
				return "", err
			}
			return plural(len(states), "node"), kind.WaitNodes(ctx, target.Config, 1, say)
		}},
		{"cert-manager", flags.stepTime, func(ctx context.Context, say func(string)) (string, error) {
			addon := addons.CertManager(here.store)
			if err := addon.Install(ctx, target, say); err != nil {
				return "", explained(ctx, err, target, "cert-manager")
			}
			state, err := addon.State(ctx, target)
			return described(state), err
		}},
	}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The context %s can be used for labs: `make lab-4 CLUSTER=context:%s`.\n", flags.context, flags.context)
	return nil
}

func contextTarget(cluster *existing.Cluster, kubeconfig string) addons.Target {
	return addons.Target{Config: cluster.Config(), Kubeconfig: kubeconfig, Pods: true, Shared: true}
}

// safeInFile keeps what a file's name may have: contexts have colons and slashes.
func safeInFile(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
		return r
	}
	return '_'
}
