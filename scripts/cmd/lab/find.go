// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/classes/course/intake"
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
			found, err := findModule(chosen)
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

// findModule finds the module of a lab below the folder of a submission.
func findModule(w *work.Work) (string, error) {
	lab, all := intakeLabs(w.Checkout, w.Lab.Name)
	return intake.Find(w.Dir, lab, all, ownsByGroup(w.Checkout))
}

// intakeLabs returns the labs of a checkout in the form of package intake, and the lab with a name.
func intakeLabs(repo *checkout.Checkout, name string) (named intake.Lab, all []intake.Lab) {
	for _, lab := range repo.Labs.Labs {
		all = append(all, intake.Lab{Name: lab.Name, Number: lab.Number, Title: lab.Title})
		if lab.Name == name {
			named = all[len(all)-1]
		}
	}
	return named, all
}

// ownsByGroup returns a function that reports whether a module has one of a lab's API groups. It is for modules whose
// names do not identify the lab.
func ownsByGroup(repo *checkout.Checkout) func(intake.Lab, string) bool {
	return func(lab intake.Lab, dir string) bool {
		listed, err := repo.Labs.Lab(lab.Name)
		return err == nil && intake.HasGroup(dir, listed.Groups...)
	}
}
