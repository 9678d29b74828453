// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	built "lva.io/operators/scripts/checkout/programs"
	"lva.io/operators/scripts/proving/proof"
)

func proveCommand() *cobra.Command {
	options := proof.Options{Out: os.Stdout}
	var listing, asJSON bool
	command := &cobra.Command{
		Use: "prove [PART…]", GroupID: groupMaintainers,
		Short: "Run the parts of the long proof whose inputs have changed since they were last proven",
		Long: "prove runs the parts of the proof whose inputs have changed since they were last proven on this machine, " +
			"the oldest proof first,\n" +
			"and writes " + proof.Page + ". A PART is a name, as certify-02, or a family, as certify. " +
			"Ctrl-C and kill -9 lose only the part at hand.",
		Example: "  lab prove\n  lab prove kind certify-02\n  lab prove --within 60m\n  lab prove --list",
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("within") && options.Within <= 0 {
				return errors.New("--within must be a positive duration, as 60m: correct it, or leave it out")
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if options.Parts, err = proof.Parts(repo); err != nil {
				return err
			}
			options.Reload = func() ([]proof.Part, error) { return currentParts(repo.Root) }
			if options.Store, err = proof.UserStore(repo.Root); err != nil {
				return err
			}
			options.Root, options.Names = repo.Root, strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool {
				return r == ','
			})
			switch {
			case asJSON:
				return proof.ListJSON(command.Context(), options)
			case listing:
				return proof.List(command.Context(), options)
			}
			return proof.Prove(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.DurationVar(&options.Within, "within", 0,
		"time limit of the run: parts that do not fit are not started, and are listed (default: no limit)")
	flags.BoolVar(&options.All, "all", false, "also run parts that are proven")
	flags.BoolVar(&listing, "list", false, "list the parts without running them")
	flags.BoolVar(&asJSON, "json", false, "list them for a program")
	return command
}

// currentParts returns the parts of the current checkout. It returns an error if the parts would run a command that is
// older than its sources.
func currentParts(root string) ([]proof.Part, error) {
	if !built.Lab(root).Fresh() {
		return nil, errors.New("this command is older than its sources: run `make prove`, which builds it first")
	}
	repo, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	return proof.Parts(repo)
}
