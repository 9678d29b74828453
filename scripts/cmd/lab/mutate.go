// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/authoring/mutate/campaign"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
)

func mutateCommand() *cobra.Command {
	o := campaign.Options{Parallel: 2, Out: os.Stdout}
	command := &cobra.Command{
		Use: "mutate [N…]", GroupID: groupMaintainers,
		Short: "Make wrong solutions automatically, and see which have full marks",
		Long: "mutate makes a mutant of a lab's solution for each small change of its syntax tree and of its markers, " +
			"grades each, and\n" +
			"lists those that have full marks. Such a mutant shows a gap in the checks, or is no mistake. " +
			"The results of the mutants\n" +
			"are kept in out/mutation, " +
			"and what is known of those that have full marks in solutions/NN-name/" + mutate.SurvivorsFile + ".\n" +
			"With --blind it grades the solutions of a file instead, which an author wrote without a look at the checks.",
		Example: "  lab mutate 2\n  lab mutate --sample 10 --seed 7\n  lab mutate 3 --again --torture\n" +
			"  lab mutate 8 --blind set.yaml",
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			o.Checkout = repo
			if !command.Flags().Changed("seed") {
				o.Seed = rand.Uint32()
			}
			return campaign.Run(command.Context(), o, args)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&o.List, "list", false, "list the mutants without grading them")
	flags.Var((*cli.Count)(&o.Sample), "sample", "how many to try, of all labs together (default: all)")
	flags.Uint32Var(&o.Seed, "seed", 0, "take the same sample as an earlier run (default: a new one)")
	flags.BoolVar(&o.Again, "again", false,
		"resume the last run: grade mutants that survived, and those that were not graded")
	flags.StringSliceVar(&o.Only, "only", nil, "try these mutants, by their IDs, even if they are known to be equivalent")
	flags.BoolVar(&o.Torture, "torture", false, "torture those that have full marks")
	flags.BoolVar(&o.Record, "record", false,
		"write the results of earlier runs to "+mutate.FiguresFile+", without grading")
	flags.StringVar(&o.Blind, "blind", "",
		"grade the mutants and right designs of this file, instead of automatic mutants")
	flags.Var((*cli.Count)(&o.Parallel), "parallel", "how many to grade in parallel")
	for _, other := range []string{"again", "only"} {
		cli.Exclusive(command, "sample", other)
	}
	cli.Exclusive(command, "again", "only")
	return command
}
