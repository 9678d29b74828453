// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/authoring/docs"
	"lva.io/operators/scripts/authoring/transcript"
	"lva.io/operators/scripts/checkout"
)

func verifyDocsCommand() *cobra.Command {
	var record bool
	command := &cobra.Command{
		Use: "verify-docs [PAGE…]", GroupID: groupMaintainers,
		Short: "Run the commands in the pages, and compare what they print",
		Long: "verify-docs runs the commands in lectures and guides at the playground, each page in a shell of its own, " +
			"and compares what they\n" +
			"print with the transcripts in docs/transcripts. It edits nothing. " +
			"Without pages it runs all that have a transcript.",
		Example: "  lab verify-docs docs/lectures/02-reconcile.md\n  lab verify-docs docs/lectures/02-reconcile.md --record",
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			pages, err := docs.Named(repo.Root, args)
			if err != nil {
				return err
			}
			if _, err := repo.Playground().Status(command.Context()); !errors.Is(err, embedded.ErrDown) {
				return errors.Join(errors.New("there is a playground, and its objects would mix with those of the pages: "+
					"remove it with `make down`"), err)
			}
			return transcript.Run(command.Context(), transcript.Options{
				Root: repo.Root, Pages: pages, Record: record, Out: command.OutOrStdout(),
				Clean: func() error {
					_, err := repo.Playground().Down()
					return err
				},
			})
		},
	}
	command.Flags().BoolVar(&record, "record", false,
		"write what the commands print into the transcripts; entries that are right stay as they are")
	return command
}
