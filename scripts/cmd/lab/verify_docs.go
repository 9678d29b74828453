// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
			pages, err := pagesNamed(repo.Root, args)
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

// pagesNamed returns the pages with these paths from the root or from the working folder.
func pagesNamed(root string, args []string) ([]string, error) {
	all, err := docs.Pages(root)
	if err != nil {
		return nil, err
	}
	var pages []string
	for _, arg := range args {
		page := arg
		if !slices.Contains(all, page) {
			absolute, err := filepath.Abs(arg)
			if err != nil {
				return nil, err
			}
			if page, err = filepath.Rel(root, absolute); err != nil {
				return nil, err
			}
			page = filepath.ToSlash(page)
		}
		if !slices.Contains(all, page) ||
			!strings.HasPrefix(page, "docs/lectures/") && !strings.HasPrefix(page, "docs/guides/") {
			return nil, fmt.Errorf("%s is not a page of docs/lectures or docs/guides", arg)
		}
		pages = append(pages, page)
	}
	return pages, nil
}
