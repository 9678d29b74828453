// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/proving/gate"
	"lva.io/operators/scripts/proving/proof"
)

// These are the numbers of mutants that the gate grades: drawn from each lab, drawn from a lab that changed, and the
// limit for those that are new or different.
const (
	drawnMutants   = 2
	drawnOfChanged = 4
	mostChanged    = 16
)

func testCommand() *cobra.Command {
	var since string
	var began int64
	cmd := &cobra.Command{
		Use: "test", GroupID: groupMaintainers,
		Short: "Decide whether a change is sound: generated files, unit tests, graders", Args: cli.NoArguments,
		Long: "test is the gate. It checks what is generated, runs the unit tests that do not take long, " +
			"and grades the solution, the\n" +
			"skeleton and some mutants of each lab. It stops at the first failure, and its last lines explain it. " +
			"`lab prove` proves the rest.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			head, earlier, err := commits(cmd.Context(), repo.Root)
			if err != nil {
				return err
			}
			chosen := since
			if since == "" {
				since = earlier
			}
			options := gate.Options{
				Root: repo.Root, Program: program, Steps: gateSteps(strings.TrimSuffix(head, uncommitted), since), Out: os.Stdout,
				Notes: func(ctx context.Context) ([]string, error) {
					stale, err := proof.Stale(ctx, repo)
					if err != nil || len(stale) == 0 {
						return nil, err
					}
					return []string{
						"Not proven with their inputs as they are now (make prove): " + strings.Join(stale, ", ") + ".",
					}, nil
				},
			}
			if began > 0 {
				options.Began = time.Unix(began, 0)
			}
			complete, err := gate.Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			// Later gates lint and grade only what differs from this commit. So the gate must have tried exactly this commit,
			// completely.
			if after, _, err := commits(cmd.Context(), repo.Root); err != nil || !complete ||
				chosen != "" || after != head || strings.HasSuffix(head, uncommitted) {
				return err
			}
			return gate.SetPassed(head)
		},
	}
	cmd.Flags().StringVar(&since, "since", "",
		"a commit that passed: packages that differ from it are linted, and mutants that are new or different are graded "+
			"(default: the commit that passed last on this machine, or the one before this)")
	cmd.Flags().Int64Var(&began, "began", 0,
		"when the gate began that this command is a part of, in seconds since 1970, as `date +%s` prints it (default: now)")
	return cmd
}

// gateSteps returns the steps, cheapest first. seed draws the mutants. since is empty if no commit is known that
// passed.
func gateSteps(seed, since string) []gate.Step {
	verify := []string{"verify", "--short"}
	unit := []string{"unit", "--short", "--forgive"}
	certify := []string{"certify", "--parallel", "3", "--forgive"}
	drawn := append(slices.Clip(certify), "--draw", strconv.Itoa(drawnMutants), "--seed", seed)
	if since != "" {
		verify, unit = append(verify, "--since", since), append(unit, "--since", since)
		drawn = append(
			drawn, "--since", since, "--changed", strconv.Itoa(drawnOfChanged), "--most", strconv.Itoa(mostChanged),
		)
	}
	return []gate.Step{
		{Name: "generated files, format, modules, lint", Args: verify},
		{
			Name: "unit tests without a control plane",
			Args: append(slices.Clip(unit), "--control-plane", gate.WithoutControlPlane),
		},
		{Name: "unit tests with a control plane", Args: append(slices.Clip(unit), "--control-plane", gate.WithControlPlane)},
		{
			Name: "solutions, skeletons, drawn and changed mutants", Args: drawn,
			Late: append(slices.Clip(certify), "--only", "skeleton,solution"), LeavesOut: "drawn and changed mutants",
		},
	}
}

// uncommitted is appended to the name of a commit whose checkout has uncommitted changes.
const uncommitted = "-dirty"

// commits returns the commit of the checkout at root, and an earlier one. The earlier one is the last commit that
// passed the gate on this machine, or else the previous commit. It is empty if there is neither.
func commits(ctx context.Context, root string) (head, earlier string, err error) {
	runner, err := command.NewRunner()
	if err != nil {
		return "", "", err
	}
	defer runner.Close()
	head, err = runner.Run(ctx, root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return "", "", fmt.Errorf("asking git for the commit, which draws the mutants: %w", err)
	}
	head = strings.TrimSpace(head)
	changed, err := runner.Run(
		ctx, root, nil, "git", append([]string{"status", "--porcelain", "--"}, proof.Unproven...)...,
	)
	if err != nil {
		return "", "", fmt.Errorf("asking git what is not committed: %w", err)
	}
	if changed != "" {
		head += uncommitted
	}
	if earlier, err = gate.Passed(); err != nil {
		return "", "", err
	}
	for _, known := range []string{earlier, "HEAD~1"} {
		// The last passed commit may belong to another clone and be unknown here, and a clone can have a single commit.
		if known != "" {
			if _, err := runner.Run(ctx, root, nil, "git", "merge-base", "--is-ancestor", known, "HEAD"); err == nil {
				return head, known, nil
			}
		}
	}
	return head, "", nil
}
