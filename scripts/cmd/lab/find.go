// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/classes/course/marking"
	"lva.io/operators/scripts/grading/work"
)

func findCommand() *cobra.Command {
	var write bool
	command := &cobra.Command{
		Use: "find N DIR", GroupID: groupStudents,
		Short: "Find the Go module that belongs to a lab in what a student handed in",
		Long: "find prints the folder of the Go module that belongs to a lab: DIR itself, a folder in it, " +
			"or one of many in a repository.\n" +
			"It compares folder names, module paths and API groups with those of the lab. If several modules match, " +
			"it names them\n" +
			"and prints none.",
		Example: "  lab find 2 ~/Downloads/operators-main\n  lab grade 2 --dir \"$(lab find 2 ~/Downloads/operators-main)\"",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("`%s` needs a lab and a folder, as in `%s 2 submission`",
					command.CommandPath(), command.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[1]); err != nil || !info.IsDir() {
				return fmt.Errorf("%s is not a folder: name the folder that the student handed in, unpacked", args[1])
			}
			flags := choiceFlags{work.Selection{Dir: args[1]}}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			found, err := marking.FindModule(chosen.Checkout, chosen.Lab, chosen.Dir)
			if err != nil {
				if write {
					err = errors.Join(err, chosen.ReportMissing(err))
				}
				return err
			}
			fmt.Println(found)
			return nil
		},
	}
	command.Flags().BoolVar(&write, "report", false,
		"if there is none, also write a report of DIR with the reason, for `lab report N --dir DIR`")
	return command
}
