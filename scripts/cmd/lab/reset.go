// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout/cli"
)

func resetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reset N", GroupID: groupStudents, Short: "Start a lab over; your work is kept in out/kept", Args: exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			chosen, err := (&choiceFlags{}).choose(args[0])
			if err != nil {
				return err
			}
			controllerGen, err := chosen.ControllerGen(command.Context())
			if err != nil {
				return err
			}
			generator := skeleton.Generator{Root: chosen.Root, ControllerGen: controllerGen}
			kept, err := generator.Reset(command.Context(), chosen.Lab.Name)
			if err != nil {
				return err
			}
			if err := chosen.Forget(); err != nil {
				return err
			}
			folder := cli.Relative(chosen.Dir)
			if kept == "" {
				fmt.Printf("%s is still the skeleton: there is nothing to reset.\n", folder)
				return nil
			}
			kept = cli.Relative(kept)
			fmt.Printf("%s is the skeleton again. Your work is in %s. To restore it, at the root of the repository:\n"+
				"  make reset-%d     # first: keeps what you have written since, in a folder of its own\n"+
				"  cp -a %s/. %s/\n", folder, kept, chosen.Lab.Number, kept, folder)
			return nil
		},
	}
}
