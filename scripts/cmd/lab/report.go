// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/gradescope"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/work"
)

const momentFormat = "2 Jan 15:04"

// formatTerminal is the format for people, which no program reads.
const formatTerminal = "terminal"

func reportCommand() *cobra.Command {
	var flags choiceFlags
	var format, output, visibility string
	command := &cobra.Command{
		Use: "report N", GroupID: groupStudents,
		Short: "Show the last report of a lab again, or write it in another form", Args: exactlyOneLab,
		Long: "report shows the last report of a lab again, or writes it in the form that another program reads. " +
			"If the last run was\n" +
			"interrupted, it shows the report of the last run that was not. Other programs never get that report.\n" +
			"The exit code is 0 if the report was written, whatever its verdict. " +
			"For classroom50, the environment says whose\n" +
			"submission it is: see docs/guides/classrooms.md.",
		Example: "  lab report 2\n  lab report 2 --format html -o report.html\n" +
			"  lab report 2 --dir ../submission --format markdown >> \"$GITHUB_STEP_SUMMARY\"",
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			last, file, err := lastFor(chosen, format == formatTerminal)
			if err != nil {
				return err
			}
			if format == formatTerminal && output == "" {
				return terminal.Render(os.Stdout, last, chosen.Screen(file))
			}
			content, err := encode(last, format, visibility, chosen.Screen(file))
			if err != nil {
				return err
			}
			if output == "" {
				_, err = os.Stdout.Write(content)
				return err
			}
			return report.WriteFile(output, content)
		},
	}
	flags.register(command)
	command.Flags().StringVar(&format, "format", formatTerminal, "terminal, "+formats.Names())
	command.Flags().StringVarP(&output, "output", "o", "", "a file to write, instead of standard output")
	command.Flags().StringVar(&visibility, "visibility", gradescope.Visibilities[0],
		"gradescope: who can see it, and when: "+strings.Join(gradescope.Visibilities, ", "))
	return command
}

// lastFor returns the report of the last run, and its file. For a person, it returns the report of the last run that
// ended, and prints a note. A report that is handed in must not have the grade of an earlier state.
func lastFor(w *work.Work, person bool) (*report.Report, string, error) {
	last, err := w.Last()
	if err != nil {
		return nil, "", err
	}
	if person && (last.Outcome == report.Interrupted || last.Outcome == report.Unfinished) {
		if finished, err := w.LastVerdict(); err == nil {
			fmt.Fprintf(os.Stderr, "The last run, of %s, did not end: this is the report of the last one that did, of %s.\n",
				last.Started.Local().Format(momentFormat), finished.Started.Local().Format(momentFormat))
			return finished, w.VerdictFile(), nil
		}
	}
	return last, w.ReportFile(), nil
}

// encode writes a report in one of the formats. The terminal format has no colours in a file.
func encode(last *report.Report, format, visibility string, screen terminal.Options) ([]byte, error) {
	if format == formatTerminal {
		var text bytes.Buffer
		screen.Screen = &terminal.Screen{}
		err := terminal.Render(&text, last, screen)
		return text.Bytes(), err
	}
	options := formats.Options{Gradescope: gradescope.Options{Visibility: visibility}}
	if format == string(formats.Classroom50) {
		var err error
		if options.Classroom50, err = classroom50.FromEnvironment(os.Getenv); err != nil {
			return nil, err
		}
	}
	return formats.Encode(last, formats.Format(format), options)
}
