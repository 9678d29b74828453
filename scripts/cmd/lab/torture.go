// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
)

func tortureCommand() *cobra.Command {
	var flags choiceFlags
	var placement clusterFlags
	settings := gradingOptions()
	var random int
	command := &cobra.Command{
		Use: "torture N", GroupID: groupStudents, Short: "Crash an operator at each of its writes, and try random faults",
		Long: "torture plays a lab's scenario over and over: on a good day, " +
			"with a crash right before and right after each write,\n" +
			"and under random schedules of conflicts, refusals, delays, lost watches and crashes, " +
			"all from one seed. It ends at\n" +
			"the first schedule that an operator does not survive, and prints the shortest one like it, with what happened.\n" +
			"It gives no points. The exit code is 0 only for an operator that survives everything.",
		Example: "  lab torture 3\n  lab torture 3 --seed 4711\n  lab torture 2 --dir ~/src/icecream-operator",
		Args:    exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			if random < 0 {
				return errors.New("--random must not be negative")
			}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			if !chosen.Lab.Operator {
				return fmt.Errorf("lab %s runs no operator, so there is nothing to torture", chosen.Lab.Name)
			}
			if chosen.Lab.Stage == manifest.Deployed {
				return fmt.Errorf("the checks of lab %s deploy the operator, "+
					"and no proxy between it and the API server could crash it: "+
					"torture the labs that it starts from", chosen.Lab.Name)
			}
			chosen.Placement = placement.Placement
			return chosen.Torture(command.Context(), settings, random)
		},
	}
	flags.register(command)
	placement.register(command, "a fresh one, on this machine")
	command.Flags().Uint32Var(&settings.Seed, "seed", 0, "play the schedules of an earlier run again (default: new ones)")
	command.Flags().BoolVar(&settings.Scenes, "scenes", false,
		"play the lab's scenes, too: mishaps that are rarer than those of the schedules (lab 3 has one)")
	command.Flags().IntVar(&random, "random", grade.RandomSchedules,
		"how many random schedules to play, after all single crashes")
	command.Flags().BoolVar(&settings.Fetch, "fetch", false,
		"download the modules that the submission needs before it is built")
	return command
}
