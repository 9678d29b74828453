// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command lab is what students and CI run: it grades labs, gives hints, and keeps a playground. It parses and wires;
// the work is done by the packages beside it. It links neither Helm nor kind, so that it builds fast.
package main

import (
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout/cli"
)

func main() { cli.Main(root()) }

const (
	groupStudents    = "students"
	groupPlayground  = "playground"
	groupInstructors = "instructors"
	groupMaintainers = "maintainers"
)

func root() *cobra.Command {
	command := &cobra.Command{
		Use:   "lab",
		Short: "Grade operators: build a lab, run it against a real Kubernetes, report what works and what does not",
		Long: "lab grades operators. N is a lab's number, as in `lab grade 2`; `lab labs` lists them.\n" +
			"Most people type `make lab-2` instead; `make help` lists everything.",
		SilenceUsage: true, SilenceErrors: true, Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.CompletionOptions.HiddenDefaultCmd = true
	command.AddGroup(
		&cobra.Group{ID: groupStudents, Title: "Labs:"},
		&cobra.Group{ID: groupPlayground, Title: "The playground:"},
		&cobra.Group{ID: groupInstructors, Title: "For instructors:"},
		&cobra.Group{ID: groupMaintainers, Title: "For contributors:"},
	)
	command.AddCommand(
		labsCommand(), newCommand(), gradeCommand(), findCommand(), hintCommand(), readCommand(), watchCommand(),
		resetCommand(), reportCommand(), replayCommand(), tortureCommand(), testsCommand(),
		upCommand(), downCommand(), statusCommand(), runCommand(), kubectlCommand(), helmCommand(),
		chartCommand(), zombieCommand(), acmeCommand(), experimentCommand(),
		imageCommand(), deployCommand(), undeployCommand(),
		classCommand(),
		testCommand(), unitCommand(), attendCommand(), proveCommand(), certifyCommand(), recordCommand(), mutateCommand(),
		conformanceCommand(), verifyCommand(), fixCommand(), verifyDocsCommand(), programsCommand(), benchCommand(),
		slidesCommand(), controllerGenCommand(), clientsCommand(), assetsCommand(),
	)
	return cli.Prepare(command)
}
