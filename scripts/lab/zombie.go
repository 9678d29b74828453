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
	"lva.io/operators/scripts/checks/zombie"
)

func zombieCommand() *cobra.Command {
	return &cobra.Command{
		Use: "zombie", GroupID: groupPlayground, Short: "Plant the scene of lab 03's second half in the playground", Args: cobra.NoArgs,
		Long: "zombie plants three icecreams in the playground, and what the controllers that hold them have left behind. One of\n" +
			"the three can't die: find out which, and why (zombie/answers.yaml of lab 03), and free it (zombie/rescue.sh). What\n" +
			"is there and right stays; what was freed or changed is planted again.",
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return plantZombie(command.Context(), here)
		},
	}
}

func plantZombie(ctx context.Context, here *checkout.Checkout) error {
	playground := here.Playground()
	config, err := playground.Config()
	if err != nil {
		return err
	}
	scene := zombie.Playground
	if err := scene.Plant(ctx, config); errors.Is(err, zombie.ErrNoIcecreams) {
		return errors.New("the playground does not know icecreams yet: `make -C labs/03-finalizer install` teaches it, and so does `make run-3`")
	} else if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "In the playground are %s, %s and %s. One of them can't die: which, and why?\n"+
		"Your answers go into labs/03-finalizer/zombie/answers.yaml. To look around:\n", scene.Living, scene.Slow, scene.Zombie)
	fmt.Printf("export KUBECONFIG=%s\n", playground.Kubeconfig())
	return nil
}
