// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/terminal"
)

func labsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "labs", GroupID: groupStudents, Short: "List the labs, and how far you have got in each", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			return listLabs(here)
		},
	}
}

func listLabs(here *checkout.Checkout) error {
	cell := lipgloss.NewStyle().PaddingRight(3)
	list := table.New().Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return cell.Bold(true)
			}
			return cell
		}).
		Headers("Lab", "What you build", "Score", "Last graded", "Next")
	for i := range here.Labs.Labs {
		lab := &here.Labs.Labs[i]
		score, when, next := "–", "never", fmt.Sprintf("make read-%d", lab.Number)
		file := filepath.Join(here.Root, "out", lab.Name, verdictDir, report.JSONFile)
		if _, err := os.Stat(file); err == nil {
			last, err := report.Read(file)
			if err != nil {
				return err
			}
			score = fmt.Sprintf("%d of %d", last.Score, last.MaxScore)
			if last.Outcome != report.Graded {
				score += " (" + string(last.Outcome) + ")"
			}
			when = last.Started.Local().Format("2 Jan 15:04")
			next = fmt.Sprintf("make lab-%d", lab.Number)
			if last.FullMarks() {
				next = "done"
			}
		}
		list.Row(lab.Name, lab.Title, score, when, next)
	}
	screen := terminal.Detect(os.Stdout, os.Getenv)
	if !screen.Color {
		list.StyleFunc(func(int, int) lipgloss.Style { return cell })
	}
	_, err := fmt.Println(list.Render())
	return err
}
