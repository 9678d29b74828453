// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/work"
)

// choiceFlags select the submission.
type choiceFlags struct{ work.Selection }

const mainUsage = "the package of the operator's program in the submission, " +
	"as ./cmd/manager (default: where kubebuilder puts it)"

func (f *choiceFlags) register(command *cobra.Command) {
	command.Flags().Var((*cli.Folder)(&f.Dir), "dir",
		"a Go module of kubebuilder's layout, instead of the lab's folder here")
	command.Flags().StringVar(&f.Main, "main", "", mainUsage)
	command.Flags().BoolVar(&f.Solution, "solution", false, "the solution, instead of the lab")
	cli.Exclusive(command, "dir", "solution")
}

// choose finds the lab that ref names, and the submission to it.
func (f *choiceFlags) choose(ref string) (*work.Work, error) {
	repo, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	lab, err := repo.Labs.Lab(ref)
	if err != nil {
		return nil, err
	}
	return work.Select(repo, lab, f.Selection)
}

// exactlyOneLab is the argument check of commands that are about one lab.
func exactlyOneLab(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one lab, as in `%s 2`; `lab labs` lists them", command.Name(), command.CommandPath())
	}
	return nil
}
