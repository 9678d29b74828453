// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/proving/gate"
	"lva.io/operators/scripts/proving/proof"
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
			head, earlier, err := gate.Commits(cmd.Context(), repo.Root, proof.Unproven)
			if err != nil {
				return err
			}
			chosen := since
			if since == "" {
				since = earlier
			}
			options := gate.Options{
				Root: repo.Root, Program: program, Out: os.Stdout,
				Steps: gate.Steps(strings.TrimSuffix(head, gate.Uncommitted), since),
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
			if after, _, err := gate.Commits(cmd.Context(), repo.Root, proof.Unproven); err != nil || !complete ||
				chosen != "" || after != head || strings.HasSuffix(head, gate.Uncommitted) {
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
