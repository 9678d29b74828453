// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package create

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

// OnContext installs add-ons on an existing cluster: cert-manager, unless it is installed. It checks the cluster's
// network but does not change it.
func OnContext(ctx context.Context, env *environment.Environment, name string, options Options) error {
	if options.Images == AirGap {
		return errors.New("--context and --air-gap cannot be combined: " +
			"images can't be loaded into the nodes of another cluster; use a registry that the cluster can reach")
	}
	var target addons.Target
	folder := filepath.Join(env.Root, ".cache", "context")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("creating a folder for the kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(folder, strings.Map(safeInFile, name)+".kubeconfig")
	plan := []steps.Step{
		{Name: "preflight", Limit: PreflightTime, Do: func(ctx context.Context, report func(string)) (string, error) {
			report("identifying the cluster")
			cluster, err := existing.Open(ctx, "", name)
			if err != nil {
				return "", err
			}
			if err := cluster.WriteKubeconfig(kubeconfig); err != nil {
				return "", err
			}
			target = ContextTarget(cluster, kubeconfig)
			return "Kubernetes " + cluster.Version, nil
		}},
		{Name: "Cilium", Limit: PreflightTime, Do: func(ctx context.Context, _ func(string)) (string, error) {
			state, err := addons.Cilium(env.Store).State(ctx, target)
			if err != nil {
				return "", err
			}
			if state.Installed == "" {
				return "the cluster has another network, which stays unchanged", nil
			}
			return Described(state), nil
		}},
		{Name: "nodes Ready", Limit: options.StepTime, Do: func(ctx context.Context, report func(string)) (string, error) {
			states, err := kind.NodeStates(ctx, target.Config)
			if err != nil {
				return "", err
			}
			return english.Plural(len(states), "node", ""), kind.WaitNodes(ctx, target.Config, 1, report)
		}},
		{Name: "cert-manager", Limit: options.StepTime, Do: func(ctx context.Context, report func(string)) (string, error) {
			addon := addons.CertManager(env.Store)
			if err := addon.Install(ctx, target, report); err != nil {
				return "", explained(ctx, err, target, "cert-manager")
			}
			state, err := addon.State(ctx, target)
			return Described(state), err
		}},
	}
	for _, addon := range moreAddons(env.Store, options.Addons) {
		plan = append(plan, steps.Step{
			Name: addon.Name(), Limit: options.StepTime,
			Do: func(ctx context.Context, report func(string)) (string, error) {
				if err := addon.Install(ctx, target, report); err != nil {
					return "", explained(ctx, err, target, addon.Name())
				}
				state, err := addon.State(ctx, target)
				return Described(state), err
			},
		})
	}
	if err := env.Steps.Run(ctx, plan); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The context %s can be used for labs: `make lab-4 CLUSTER=context:%s`.\n", name, name)
	return nil
}

// ContextTarget describes an existing cluster as a target for add-ons.
func ContextTarget(cluster *existing.Cluster, kubeconfig string) addons.Target {
	return addons.Target{Config: cluster.Config(), Kubeconfig: kubeconfig, Pods: true, Shared: true}
}

// safeInFile keeps the characters that are safe in a file's name. Contexts have colons and slashes.
func safeInFile(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
		return r
	}
	return '_'
}
