// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/skeleton"
)

func resetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reset N", GroupID: groupStudents, Short: "Begin a lab again; your work is kept", Args: exactlyOneLab,
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
			// Reports and hints were about what is no longer there.
			if err := os.RemoveAll(chosen.Out); err != nil {
				return fmt.Errorf("removing the old reports: %w", err)
			}
			if kept == "" {
				fmt.Printf("labs/%s is as it was at the beginning: there is nothing to reset.\n", chosen.Lab.Name)
				return nil
			}
			fmt.Printf("labs/%s is as at the beginning. Your work is kept in %s.\n", chosen.Lab.Name, chosen.relative(kept))
			return nil
		},
	}
}
