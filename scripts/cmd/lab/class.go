// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/classes/course/marking"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/proving/proof"
)

func classCommand() *cobra.Command {
	options := marking.Options{Sandbox: grade.SandboxRequired, Harness: proof.Harness, Out: os.Stdout}
	command := &cobra.Command{
		Use: "class --lab N SUBMISSIONS", GroupID: groupInstructors,
		Short: "Grade the submissions of a class, and write its gradebook",
		Long: "class grades what a class handed in, several submissions at a time, " +
			"and writes a gradebook, a page for you, reports, and an archive\n" +
			"with feedback for each student. Submissions are a folder of folders or archives (zip, tar, tar.gz; " +
			"also the exports of Gradescope and\n" +
			"Moodle), or a roster: a CSV file with the columns student and source, and if you like lab and commit.\n\n" +
			"Each result is kept as soon as it is known. After Ctrl-C, a crash or a power failure, " +
			"the same command continues where it was. Run again\n" +
			"later, it grades what is new or different, and what had no grade because of the machine.\n\n" +
			"Submissions run in a sandbox, and nothing is graded on a machine that can't build one. " +
			"The exit code is 0 only if nothing was left without a\n" +
			"grade for a reason that is not the student's. " +
			"docs/guides/classrooms.md explains the steps from a roster to published grades.",
		Example: "  lab class --lab 2 ~/Downloads/submissions\n  lab class --lab 2,3 roster.csv --rules class.yaml\n" +
			"  lab class --lab 2 ~/Downloads/submissions.csv --slots 6 --out ~/course/lab-2",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("class needs one folder of submissions, or one roster, " +
					"as in `lab class --lab 2 ~/Downloads/submissions`")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return marking.Run(command.Context(), repo, args[0], options)
		},
	}
	command.Flags().StringSliceVar(&options.Labs, "lab", nil,
		"the labs to grade, by their numbers or names, with commas between them")
	command.Flags().Var((*cli.Folder)(&options.Folder), "out",
		"the folder for results, which also has what is known of earlier runs (default: out/class and the lab's name)")
	command.Flags().StringVar(&options.Rules, "rules", "",
		"a class.yaml with deadlines, penalties, weights and comments (default: no deadlines, the best attempt counts)")
	command.Flags().Var((*cli.Count)(&options.Slots), "slots",
		"how many to grade in parallel (default: as many as processors and memory allow)")
	command.Flags().BoolVar(&options.OnlyChanged, "only-changed", false, "keep results of equal work, "+
		"even if another version of the grader produced them (default: grade them again)")
	command.Flags().Uint32Var(&options.Seed, "seed", 0,
		"what decides faults and stories, for all students (default: drawn in the first run, and kept)")
	command.Flags().Var(&options.Sandbox, "sandbox",
		"sandbox for submissions: refuse to grade without it (required), "+
			"use what this machine supports (auto), or run them as you (off)")
	return command
}
