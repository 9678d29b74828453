// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/scripts/checkout/command"
)

// These are the numbers of mutants that the gate grades: drawn from each lab, drawn from a lab that changed, and the
// limit for those that are new or different.
const (
	drawnMutants   = 2
	drawnOfChanged = 4
	mostChanged    = 16
)

// Steps returns the steps of the gate, cheapest first. seed draws the mutants. since is empty if no commit is known
// that passed.
func Steps(seed, since string) []Step {
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
	return []Step{
		{Name: "generated files, format, modules, lint", Args: verify},
		{
			Name: "unit tests without a control plane",
			Args: append(slices.Clip(unit), "--control-plane", WithoutControlPlane),
		},
		{Name: "unit tests with a control plane", Args: append(slices.Clip(unit), "--control-plane", WithControlPlane)},
		{
			Name: "solutions, skeletons, drawn and changed mutants", Args: drawn,
			Late: append(slices.Clip(certify), "--only", "skeleton,solution"), LeavesOut: "drawn and changed mutants",
		},
	}
}

// Uncommitted is appended to the name of a commit whose checkout has uncommitted changes.
const Uncommitted = "-dirty"

// Commits returns the commit of the checkout at root, and an earlier one. The earlier one is the last commit that
// passed the gate on this machine, or else the previous commit. It is empty if there is neither. tested are Git
// pathspecs: uncommitted changes of other files are ignored.
func Commits(ctx context.Context, root string, tested []string) (head, earlier string, err error) {
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
		ctx, root, nil, "git", append([]string{"status", "--porcelain", "--"}, tested...)...,
	)
	if err != nil {
		return "", "", fmt.Errorf("asking git what is not committed: %w", err)
	}
	if changed != "" {
		head += Uncommitted
	}
	if earlier, err = Passed(); err != nil {
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
