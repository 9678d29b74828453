// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/slides"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
)

func slidesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "slides", GroupID: groupMaintainers,
		Short: "Build the slides of all lectures as HTML and PDF", Args: cli.NoArguments,
		Long: "slides builds the decks of docs/slides into out/slides. " +
			"It needs Node, npm and Chromium. The HTML has a presenter's view with the\n" +
			"notes (press p), and the PDF has the notes as annotations.",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			out, err := repo.Out("slides")
			if err != nil {
				return err
			}
			return slides.Build(command.Context(), repo.Root, out, command.OutOrStdout(), slides.HTML, slides.PDF)
		},
	}
}
