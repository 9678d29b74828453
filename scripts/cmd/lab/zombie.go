// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checks/zombie"
	"lva.io/operators/scripts/grading/playground"
)

func zombieCommand() *cobra.Command {
	return &cobra.Command{
		Use: "zombie", GroupID: groupPlayground,
		Short: "Create the scene of lab 03's second half in the playground", Args: cli.NoArguments,
		Long: "zombie creates three icecreams in the playground, and what the controllers that hold them have left behind. " +
			"One of\n" +
			"the three can never be deleted: find out which, and why (zombie/answers.yaml of lab 03), and free it\n" +
			"(zombie/rescue.sh). Run again, it restores what was freed or changed.",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return plantZombie(command.Context(), repo)
		},
	}
}

func plantZombie(ctx context.Context, repo *checkout.Checkout) error {
	config, err := repo.Playground().Config()
	if err != nil {
		return err
	}
	scene := zombie.Playground
	if err := scene.Plant(ctx, config); errors.Is(err, zombie.ErrNoIcecreams) {
		return errors.New("the playground does not know icecreams yet: type `make -C labs/03-finalizer install`, " +
			"or `make run-3`")
	} else if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr,
		"The playground has the icecreams %s, %s and %s. One of them can never be deleted: which, and why?\n"+
			"Write your answers into labs/03-finalizer/zombie/answers.yaml. "+
			"For kubectl in your shell:\n", scene.Living, scene.Slow, scene.Zombie)
	fmt.Print(playground.ShellLines(repo))
	return nil
}
