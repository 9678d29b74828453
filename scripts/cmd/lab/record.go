// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/runs"
	"lva.io/operators/scripts/checkout"
)

func recordCommand() *cobra.Command {
	var only []string
	command := &cobra.Command{
		Use: "record [N…]", GroupID: groupMaintainers,
		Short: "Grade the runs that docs/runs shows, and keep their reports there",
		Long: "record grades the skeleton, the mistake that docs/runs/mistakes.yaml names, " +
			"and the solution of each lab, and keeps the reports in\n" +
			"docs/runs. A run that is not graded as mutants.yaml requires is discarded.",
		Example: "  lab record 3 --only mistake",
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range only {
				if !slices.Contains(runs.Names, name) {
					return fmt.Errorf("--only %s: choose from %s", name, strings.Join(runs.Names, ", "))
				}
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			labs, err := repo.Labs.Named(args)
			if err != nil {
				return err
			}
			for _, lab := range labs {
				if err := runs.Record(c.Context(), repo, lab, only, os.Stdout); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().StringSliceVar(&only, "only", nil, "record only these: skeleton, mistake, solution (default: all)")
	return command
}
