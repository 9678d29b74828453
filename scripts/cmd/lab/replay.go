// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/replay"
	"lva.io/operators/scripts/grading/report/terminal"
)

func replayCommand() *cobra.Command {
	var flags choiceFlags
	var check string
	command := &cobra.Command{
		Use: "replay N|REPORT", GroupID: groupStudents,
		Short: "Replay a check of your last run, and predict what the operator does next",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("replay needs one lab or one report, as in `lab replay 2` or `lab replay report.json`")
			}
			return nil
		},
		Long: "replay steps through a check of a graded run: the operator's requests, the faults that hit them, " +
			"and when it was killed and\n" +
			"started. Before each step it asks what the operator does next. By default it replays the check to fix first. " +
			"Where the input\n" +
			"or the output is no terminal, it asks nothing. The HTML page of the report has the same replay.",
		Example: "  lab replay 2\n  lab replay 3 --solution --check killed-between\n" +
			"  lab replay docs/runs/03-finalizer/mistake.json",
		RunE: func(command *cobra.Command, args []string) error {
			played, err := flags.played(args[0])
			if err != nil {
				return err
			}
			played.Sanitize()
			chosen, err := replay.Choose(played, check)
			if err != nil {
				return err
			}
			var in io.Reader
			if terminal.Detect(os.Stdin, os.Getenv).Interactive && terminal.Detect(os.Stdout, os.Getenv).Interactive {
				in = os.Stdin
			}
			return replay.Play(command.Context(), os.Stdout, in, played, chosen)
		},
	}
	flags.register(command)
	command.Flags().StringVar(&check, "check", "",
		"the ID of the check (default: the one to fix first, or the one with the most to predict)")
	return command
}

// played returns the report that an argument names: a file, or the last report of a lab.
func (f *choiceFlags) played(name string) (*report.Report, error) {
	if filepath.Ext(name) == ".json" {
		if f.Dir != "" || f.Solution || f.Main != "" {
			return nil, fmt.Errorf("%s is a report: --dir, --main and --solution belong to the number of a lab", name)
		}
		return report.Read(name)
	}
	chosen, err := f.choose(name)
	if err != nil {
		return nil, err
	}
	last, _, err := lastFor(chosen, true)
	return last, err
}
