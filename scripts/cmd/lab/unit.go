// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/proving/gate"
	"lva.io/operators/scripts/proving/proof"
)

func unitCommand() *cobra.Command {
	u := gate.UnitTests{Out: os.Stdout}
	command := &cobra.Command{
		Use: "unit", GroupID: groupMaintainers,
		Short: "Run the unit tests of all modules but the labs, which are the students'", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if u.ControlPlane != "" && u.ControlPlane != gate.WithoutControlPlane && u.ControlPlane != gate.WithControlPlane {
				return fmt.Errorf("--control-plane is %s or %s, and not %q",
					gate.WithoutControlPlane, gate.WithControlPlane, u.ControlPlane)
			}
			modules, err := repo.Modules()
			if err != nil {
				return err
			}
			if u.Unchanged, err = gate.UnchangedSolutions(command.Context(), repo.Root, modules, u.Since); err != nil {
				return err
			}
			// Tests start clusters and grade submissions. Everything that they need is built here, with visible progress.
			if err := repo.Prepare(command.Context(), true, &repo.Labs.Labs[0]); err != nil {
				return err
			}
			if err := repo.EnsureAddons(command.Context(), known.Names()); err != nil {
				return err
			}
			programs, err := proof.TestedPrograms(repo)
			if err != nil {
				return err
			}
			// The solutions' tests start an API server with envtest.
			assets, err := repo.Assets(command.Context())
			if err != nil {
				return err
			}
			if u.Gotestsum, err = repo.Gotestsum(command.Context()); err != nil {
				return err
			}
			u.Root, u.Modules = repo.Root, append(modules, programs...)
			u.Environment = []string{"KUBEBUILDER_ASSETS=" + assets}
			return u.Run(command.Context())
		},
	}
	command.Flags().BoolVar(&u.Short, "short", false, "leave out the tests that belong to the proof: those that take long")
	command.Flags().StringVar(&u.ControlPlane, "control-plane", "",
		"only packages whose tests are linked "+gate.WithControlPlane+" or "+gate.WithoutControlPlane+
			" a control plane (default: all)")
	command.Flags().StringSliceVar(&u.Only, "only", nil,
		"only these modules, by their folders, as in --only clusters,scripts")
	command.Flags().StringVar(&u.Since, "since", "",
		"a commit whose tests passed: solutions that are unchanged since then are skipped")
	command.Flags().BoolVar(&u.Measuring, "measure", false, "print the time of each package, and the slowest tests")
	command.Flags().BoolVar(&u.Forgiving, "forgive", false,
		"retry what fails alone, at most twice. If it passes, record it in out/flaky.json and continue")
	return command
}

// leavePatience is how long the processes of tests may take to end after the tests. They need some milliseconds, or two
// seconds if a guard has to look for them.
const leavePatience = 30 * time.Second

func attendCommand() *cobra.Command {
	return &cobra.Command{
		Use: gate.AttendCommand + " PROGRAM [ARGUMENT…]", Hidden: true, DisableFlagParsing: true,
		Args:  cobra.MinimumNArgs(1),
		Short: "Run a program, and fail if it leaves processes behind; go test runs test programs with it",
		RunE: func(command *cobra.Command, args []string) error {
			status, left, err := process.Attend(command.Context(), args[0], args[1:], leavePatience)
			if err != nil {
				return fmt.Errorf("running %s: %w", args[0], err)
			}
			if left != "" {
				fmt.Printf("FAIL: the tests left processes behind: %s\n", left)
				status = max(status, 1)
			}
			os.Exit(status)
			return nil
		},
	}
}
