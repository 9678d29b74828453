// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/work"
)

func labsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "labs", GroupID: groupStudents, Short: "List the labs, with your scores", Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return listLabs(repo)
		},
	}
}

func listLabs(repo *checkout.Checkout) error {
	cell := lipgloss.NewStyle().PaddingRight(3)
	list := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return cell.Bold(true)
			}
			return cell
		}).
		Headers("Lab", "What you build", "Score", "Last graded", "Next")
	var problems []error
	for i := range repo.Labs.Labs {
		lab := &repo.Labs.Labs[i]
		own := work.Own(repo, lab)
		row, err := own.Standing()
		if err != nil {
			// The report is from another version, or damaged. The other labs must still be listed.
			problems = append(problems, err)
			row = []string{lab.Name, lab.Title, "?", "?", fmt.Sprintf("make lab-%d", lab.Number)}
		}
		list.Row(row...)
		list.Rows(own.Milestones()...)
	}
	screen := terminal.Detect(os.Stdout, os.Getenv)
	if !screen.Color {
		list.StyleFunc(func(int, int) lipgloss.Style { return cell })
	}
	_, err := fmt.Println(list.Render())
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	return err
}
