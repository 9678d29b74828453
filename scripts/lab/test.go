// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/command"
	"lva.io/operators/scripts/gate"
)

// What the gate draws: mutants of each lab, of a lab that changed, and at most so many that are new or different.
const (
	drawnMutants   = 2
	drawnOfChanged = 4
	mostChanged    = 16
)

func testCommand() *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "test", GroupID: groupMaintainers, Short: "Decide whether a change is sound: generated files, unit tests, graders", Args: cli.NoArguments,
		Long: "test is the gate. It checks what is generated, runs the unit tests that do not take long, and grades the solution, the\n" +
			"skeleton and some mutants of each lab. It stops at the first failure, and its last lines explain it. `lab prove` proves the rest.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			seed, base, err := commits(cmd.Context(), here.Root)
			if err != nil {
				return err
			}
			if since == "" {
				since = base
			}
			return gate.Run(cmd.Context(), gate.Options{
				Root: here.Root, Program: program, Steps: gateSteps(seed, since), Out: os.Stdout,
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "a commit that was certified: mutants that are new or different since then are graded (default: the commit before)")
	return cmd
}

// gateSteps are the steps, cheapest first. seed draws the mutants; since is empty where there is no earlier commit.
func gateSteps(seed, since string) []gate.Step {
	verify := []string{"verify", "--short"}
	certify := []string{"certify", "--parallel", "5", "--forgive"}
	drawn := append(slices.Clip(certify), "--draw", strconv.Itoa(drawnMutants), "--seed", seed)
	if since != "" {
		verify = append(verify, "--since", since)
		drawn = append(drawn, "--since", since, "--changed", strconv.Itoa(drawnOfChanged), "--most", strconv.Itoa(mostChanged))
	}
	return []gate.Step{
		{Name: "generated files, format, modules, lint", Args: verify},
		{Name: "unit tests without a control plane", Args: []string{"unit", "--short", "--forgive", "--control-plane", without}},
		{Name: "unit tests with a control plane", Args: []string{"unit", "--short", "--forgive", "--control-plane", with}},
		{Name: "solutions and skeletons", Args: append(slices.Clip(certify), "--only", "skeleton,solution")},
		{Name: "drawn and changed mutants", Args: drawn, Drawn: true},
	}
}

// commits are the commit of the checkout at root, and the one before it. It is empty in a clone that has only one.
func commits(ctx context.Context, root string) (head, before string, err error) {
	runner, err := command.NewRunner()
	if err != nil {
		return "", "", err
	}
	defer runner.Close()
	out, err := runner.Run(ctx, root, nil, "git", "log", "-2", "--format=%H")
	if err != nil {
		return "", "", err
	}
	both := strings.Fields(out)
	if len(both) > 1 {
		before = both[1]
	}
	return both[0], before, nil
}
