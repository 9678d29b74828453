// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/authoring/testgrade"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/report/gradescope"
	"lva.io/operators/scripts/grading/work"
)

func gradeCommand() *cobra.Command {
	var flags choiceFlags
	var placement clusterFlags
	settings := gradingOptions()
	var all, withoutNode bool
	var step int
	command := &cobra.Command{
		Use: "grade N", GroupID: groupStudents, Short: "Grade a lab, its solution, or any module of kubebuilder's layout",
		Long: "grade builds a submission, runs it against a fresh cluster, and checks what it does there.\n" +
			"The reports are in out/. The exit code is 0 for full marks, 1 for any other report, and 2 if the run has none.",
		Example: "  lab grade 2\n  lab grade 2 --dir ~/src/icecream-operator --fetch\n  lab grade 4 --cluster kind\n" +
			"  lab grade --all",
		Args: func(command *cobra.Command, args []string) error {
			if !all {
				return exactlyOneLab(command, args)
			}
			if len(args) > 0 || flags.Dir != "" || settings.Gradescope != "" || command.Flags().Changed("step") || withoutNode {
				return errors.New("--all grades all labs: leave out the lab, --dir, --step, --without-node and --gradescope")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if all {
				repo, err := checkout.Find()
				if err != nil {
					return err
				}
				return work.GradeAll(command.Context(), repo, flags.Selection, placement.Placement, gradingOptions())
			}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			if command.Flags().Changed("step") {
				if chosen.Lab, err = chosen.Lab.UpTo(step); err != nil {
					return err
				}
			}
			if withoutNode {
				switch {
				case command.Flags().Changed("step"):
					return errors.New("--step and --without-node exclude each other: leave one of them out")
				case settings.Gradescope != "":
					return errors.New("--without-node gives no grade, and --gradescope writes one: leave one of them out")
				case !placement.Embedded():
					return errors.New("--without-node is about this machine, and --cluster names another cluster: " +
						"leave one of them out")
				}
				if chosen.Lab, err = chosen.Lab.WithoutNode(); err != nil {
					return err
				}
			}
			chosen.Placement = placement.Placement
			if settings.Start, settings.On, err = placement.Start(command.Context(), chosen.Checkout, chosen.Lab); err != nil {
				return err
			}
			if !command.Flags().Changed("seed") { // a repeated run has the order of the first one
				settings.First = chosen.ToFix()
			}
			result, err := chosen.Grade(command.Context(), settings)
			if err != nil {
				return &cli.CodeError{Err: err, Code: exitNoReport}
			}
			if !result.FullMarks() {
				return cli.ErrReported
			}
			return nil
		},
	}
	flags.register(command)
	placement.register(command, "a fresh one, on this machine")
	command.Flags().BoolVar(&settings.Fetch, "fetch", false,
		"download the modules that the submission needs before it is built")
	command.Flags().BoolVar(&all, "all", false, "grade all labs")
	command.Flags().BoolVar(&withoutNode, "without-node", false,
		"on a machine that can't run Pods: run only the checks that need no Pods, which gives no grade")
	command.Flags().IntVar(&step, "step", 0, "run only the checks of the lab's steps up to this one (default: all)")
	command.Flags().Uint32Var(&settings.Seed, "seed", 0,
		"inject the same faults and play the same story as in an earlier run (default: a new seed)")
	settings.Stories = 1
	command.Flags().Var((*cli.Count)(&settings.Stories), "stories",
		"how many stories to play, with this seed and those that follow")
	command.Flags().Var(&settings.Sandbox, "sandbox",
		"sandbox for what the submission runs on this machine: as far as possible (auto), "+
			"required (refuse to grade without all of it), or off")
	command.Flags().StringVar(&settings.Gradescope, "gradescope", "",
		"a file for Gradescope's results.json, rewritten after each check")
	command.Flags().StringVar(&settings.Visibility, "visibility", gradescope.Visibilities[0],
		"gradescope: who can see it, and when: "+strings.Join(gradescope.Visibilities, ", "))
	return command
}

// exitNoReport is the exit code of a run without a report. If a report file exists afterwards, it is not from this run.
const exitNoReport = 2

// gradingOptions returns the options of package work that are the same for each command.
func gradingOptions() work.Options {
	return work.Options{OwnTests: testgrade.ForWork, NotStarted: skeleton.NotStarted, Out: os.Stdout}
}
