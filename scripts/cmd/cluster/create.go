// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/create"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
)

func createCommand() *cobra.Command {
	var options create.Options
	var name, contextName string
	var airGap bool
	command := &cobra.Command{
		Use: "create", Short: "Create a cluster with Cilium and cert-manager, or resume an earlier run",
		Args: cli.NoArguments,
		Long: "create creates a kind cluster, installs Cilium and cert-manager, and waits until both are usable. " +
			"After a failure or\n" +
			"kill -9, run it again to resume. After a success, it verifies the cluster and changes nothing.\n" +
			"With --context it installs cert-manager on an existing cluster, and changes only what it created.",
		RunE: func(command *cobra.Command, _ []string) error {
			if airGap {
				if command.Flags().Changed("images") && options.Images != create.AirGap {
					return fmt.Errorf("--air-gap and --images %s cannot be combined: give one of them", options.Images)
				}
				options.Images = create.AirGap
			}
			if !slices.Contains(create.Sources, options.Images) {
				return fmt.Errorf("--images %s: choose one of %s, %s, %s",
					options.Images, create.Auto, create.Registry, create.AirGap)
			}
			if err := known.Check(options.Addons); err != nil {
				return err
			}
			if options.StepTime <= 0 {
				return fmt.Errorf("--step-time %s: the time limit must be positive", options.StepTime)
			}
			if contextName != "" {
				for _, other := range []string{"name", "profile", "recreate"} {
					if command.Flags().Changed(other) {
						return fmt.Errorf("--context and --%s cannot be combined: an existing cluster has its own name and nodes", other)
					}
				}
			}
			env, err := environment.Find(name)
			if err != nil {
				return err
			}
			if contextName != "" {
				return create.OnContext(command.Context(), env, contextName, options)
			}
			return create.Cluster(command.Context(), env, options)
		},
	}
	nameFlag(command, &name)
	command.Flags().StringVar(&options.Profile, "profile", "student",
		"which cluster: "+strings.Join(kind.Profiles(), ", ")+" (clusters/config/kind)")
	command.Flags().StringVar(&options.Images, "images", create.Auto,
		"where images come from: registry, air-gap (built here), or auto: registry if it answers")
	command.Flags().BoolVar(&airGap, "air-gap", false,
		"the same as --images air-gap: build all images from Go modules and Debian packages")
	command.Flags().StringSliceVar(&options.Addons, "addons", nil,
		"also install these: "+strings.Join(known.Names(), ", "))
	command.Flags().BoolVar(&options.Recreate, "recreate", false, "delete an existing cluster first")
	command.Flags().StringVar(&contextName, "context", "",
		"install on the cluster of this context of your kubeconfig instead")
	command.Flags().DurationVar(&options.StepTime, "step-time", create.StepTime,
		"time limit of each step once the images are available")
	return command
}
