// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/work"
)

func hintCommand() *cobra.Command {
	var flags choiceFlags
	command := &cobra.Command{
		Use: "hint N", GroupID: groupStudents, Short: "Give the next hint for the first check that failed in your last run",
		Args: exactlyOneLab,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			return hint(chosen)
		},
	}
	flags.register(command)
	return command
}

// hint prints one hint more than the last time, as long as the first failed check is the same.
func hint(w *work.Work) error {
	last, err := w.LastVerdict()
	if err != nil {
		return err
	}
	options := w.Screen("")
	failed := last.Explained()
	switch {
	case last.FullMarks() && failed == nil:
		fmt.Println("There is nothing to fix: your last run has full marks.")
		return nil
	case failed == nil:
		return fmt.Errorf("no check failed in your last run, because it ended early: %s; fix that and run `%s`",
			last.Reason, options.Commands.Grade)
	}
	check := w.Lab.OwnTests()
	if check == nil || check.ID != failed.ID {
		if check, err = w.Lab.Check(failed.ID); err != nil {
			return err
		}
	}
	given, err := report.ReadKept[int](w.Out, hintsFile, hintsKept)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", check.ID, check.Title)
	n := given[check.ID]
	if n >= len(check.Hints) {
		fmt.Printf("\nYou have had all %d hints:\n", n)
		for i, text := range check.Hints {
			fmt.Printf("\n%d. %s\n", i+1, text)
		}
		fmt.Printf("\nThe lecture explains it (`%s`: %s), and solutions/%s shows one way.\n",
			options.Commands.Read(check.Lecture), check.Lecture, w.Lab.Name)
		return nil
	}
	fmt.Printf("\nHint %d of %d: %s\n", n+1, len(check.Hints), check.Hints[n])
	given[check.ID] = n + 1
	return report.WriteKept(w.Out, hintsFile, hintsKept, given)
}

// The number of hints given is stored beside the reports, by check.
const (
	hintsFile = "hints.json"
	hintsKept = "which hints you had"
)
