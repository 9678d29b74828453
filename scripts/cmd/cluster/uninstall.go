// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/create"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

func uninstallCommand() *cobra.Command {
	var name, contextName string
	command := &cobra.Command{
		Use: "uninstall ADDON…", Short: "Remove add-ons that create or a lab has installed",
		Long: "uninstall removes what was installed for an add-on. It keeps add-ons that another user installed, " +
			"cert-manager's kinds\n" +
			"with all their objects, and the rule for lab.test in a kind cluster's DNS.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("name what to remove: %s", strings.Join(known.Names(), ", "))
			}
			return known.Check(args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			env, err := environment.Find(name)
			if err != nil {
				return err
			}
			if contextName != "" {
				cluster, err := existing.Open(command.Context(), "", contextName)
				if err != nil {
					return err
				}
				return uninstall(command.Context(), env, create.ContextTarget(cluster, ""), args)
			}
			unlock, err := env.Lock(command.Context())
			if err != nil {
				return err
			}
			defer unlock()
			target, err := kindTarget(command.Context(), env)
			if err != nil {
				return err
			}
			return uninstall(command.Context(), env, target, args)
		},
	}
	nameFlag(command, &name)
	command.Flags().StringVar(&contextName, "context", "", "the cluster of this context of your kubeconfig instead")
	cli.Exclusive(command, "name", "context")
	return command
}

// kindTarget returns a kind cluster as a target for uninstalling add-ons.
func kindTarget(ctx context.Context, env *environment.Environment) (addons.Target, error) {
	found, err := env.Cluster.Find(ctx)
	if err != nil {
		return addons.Target{}, err
	}
	if found.State != kind.Made {
		return addons.Target{}, errors.New("the cluster does not exist, or does not answer: `cluster status` shows which")
	}
	config, err := env.Cluster.Config()
	if err != nil {
		return addons.Target{}, err
	}
	profile, err := kind.LoadProfile(found.Marker.Profile)
	if err != nil {
		return addons.Target{}, err
	}
	return create.TargetOf(env.Cluster, config, profile, found.Marker), nil
}

// uninstall removes the add-ons, one per step.
func uninstall(ctx context.Context, env *environment.Environment, target addons.Target, names []string) error {
	var plan []steps.Step
	for _, name := range names {
		addon, err := addons.Named(env.Store, name)
		if err != nil {
			return err
		}
		plan = append(plan, steps.Step{
			Name: name, Limit: create.StepTime,
			Do: func(ctx context.Context, _ func(string)) (string, error) {
				return "removed", addon.Uninstall(ctx, target)
			},
		})
	}
	return env.Steps.Run(ctx, plan)
}
