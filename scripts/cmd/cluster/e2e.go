// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/engine"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/create"
	"lva.io/operators/scripts/proving/e2e"
)

// e2eCluster is the name of a cluster that exists beside the developer's own.
const e2eCluster = "operator-labs-e2e"

func e2eCommand() *cobra.Command {
	options := e2e.Options{Name: e2eCluster, Out: os.Stdout}
	var optional bool
	var from string
	var labs []string
	command := &cobra.Command{
		Use: "e2e", Short: "Test the whole course on a new cluster, and delete the cluster", Args: cli.NoArguments,
		Long: "e2e creates a student cluster, tests its network, " +
			"grades every solution and a wrong submission of each lab on it,\n" +
			"invites students, tests their permissions, revokes them, and always deletes the cluster.",
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains(create.Sources, from) {
				return fmt.Errorf("--images %s: choose one of %s, %s, %s", from, create.Auto, create.Registry, create.AirGap)
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			options.Checkout = repo
			for _, ref := range labs {
				lab, err := repo.Labs.Lab(ref)
				if err != nil {
					return err
				}
				options.Only = append(options.Only, lab.Name)
			}
			reason, err := missingRequirement(command.Context())
			if err != nil {
				return err
			}
			if command.Flags().Changed("within") && options.Within <= 0 {
				reason = "no time is left"
			}
			if reason != "" && optional {
				fmt.Printf("The kind tests were NOT run here: %s\n", reason)
				return nil
			}
			if reason != "" {
				return fmt.Errorf("the kind tests can't run here: %s", reason)
			}
			options.AirGap = from == create.AirGap
			if from == create.Auto {
				if err := kind.RegistriesAnswer(command.Context()); err != nil {
					fmt.Printf("No registry (%v): all images are built here.\n", err)
					options.AirGap = true
				}
			}
			return runE2E(command.Context(), options)
		},
	}
	command.Flags().StringVar(&from, "images", create.Auto, "where images come from, as for create")
	command.Flags().StringSliceVar(&labs, "labs", nil, "grade only these labs, as in --labs 8,9 (default: all)")
	options.Times = 1
	command.Flags().Var((*cli.Count)(&options.Times), "times", "how often to grade each solution")
	command.Flags().DurationVar(&options.Within, "within", 0,
		"time limit of the run: steps that do not fit are skipped and listed at the end (default: no limit)")
	command.Flags().BoolVar(&optional, "optional", false, "if the tests can't run here, print the reason and succeed")
	return command
}

// missingRequirement returns why no cluster can be created here, or an empty string.
func missingRequirement(ctx context.Context) (string, error) {
	profile, err := kind.LoadProfile("student")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, create.PreflightTime)
	defer cancel()
	if engine.Needed(ctx) {
		// create installs an engine and starts it. Its data are in the checkout.
		repo, err := checkout.Find()
		if err != nil {
			return "", err
		}
		if problem, full := kind.CheckDiskSpace(repo.Root, profile); full {
			return problem.String(), nil
		}
		return "", nil
	}
	facts := kind.Measure(ctx, profile, true)
	var reasons []string
	for _, problem := range facts.Problems(profile, false) {
		if problem.Fatal {
			reasons = append(reasons, problem.String())
		}
	}
	return strings.Join(reasons, "; "), nil
}

func runE2E(ctx context.Context, options e2e.Options) error {
	var err error
	if options.Cluster, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this command's own file: %w", err)
	}
	options.Lab = filepath.Join(options.Root, ".cache", "bin", "lab")
	if _, err := os.Stat(options.Lab); err != nil {
		return fmt.Errorf("the lab command is needed: `make labs` builds it: %w", err)
	}
	started := time.Now()
	result, err := e2e.Run(ctx, options)
	fmt.Println()
	result.Table(os.Stdout)
	switch {
	case err != nil:
		return fmt.Errorf("the kind tests failed: %w", err)
	case len(result.NotRun) > 0:
		fmt.Printf("The kind tests that ran passed, but %d did NOT run within the time limit of %s.\n",
			len(result.NotRun), options.Within)
	case len(result.LeftOut) > 0:
		fmt.Printf("The kind tests of %s passed in %.0f s.\n",
			strings.Join(options.Only, ", "), time.Since(started).Seconds())
	default:
		fmt.Printf("The kind tests passed in %.0f s.\n", time.Since(started).Seconds())
	}
	return nil
}
