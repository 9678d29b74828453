// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/terminal"
)

func reportCommand() *cobra.Command {
	var flags choiceFlags
	command := &cobra.Command{
		Use: "report N", GroupID: groupStudents, Short: "Show the last report of a lab again", Args: exactlyOneLab,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			file := filepath.Join(chosen.Out, report.JSONFile)
			last, err := report.Read(file)
			if err != nil {
				return err
			}
			return terminal.Render(os.Stdout, last, chosen.screen(file))
		},
	}
	flags.register(command)
	return command
}
