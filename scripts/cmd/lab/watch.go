// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/grading/work"
)

func watchCommand() *cobra.Command {
	var flags choiceFlags
	var part string
	command := &cobra.Command{
		Use: "watch N", GroupID: groupStudents,
		Short: "Grade a lab again each time one of its files is saved", Args: exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			return work.Watch(command.Context(), chosen, part, gradingOptions())
		},
	}
	flags.register(command)
	command.Flags().StringVar(&part, "part", "", partUsage)
	return command
}

// partUsage names the parts of the labs that have any, for a flag.
const partUsage = "only this part of a lab that is built in parts, as read of lab 7 " +
	"(default: the first that has not full marks; after the last one, the whole lab)"
