// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/terminal"
)

func labsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "labs", GroupID: groupStudents, Short: "List the labs, with your scores", Args: cli.NoArguments,
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
	var problems []error
	for i := range here.Labs.Labs {
		lab := &here.Labs.Labs[i]
		work := ownWork(here, lab)
		row, err := work.standing()
		if err != nil {
			// Written by another version, or damaged: that is no reason to keep the others from sight.
			problems = append(problems, err)
			row = []string{lab.Name, lab.Title, "?", "?", fmt.Sprintf("make lab-%d", lab.Number)}
		}
		list.Row(row...)
		list.Rows(work.milestones()...)
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

// ownWork is the student's work on a lab of the checkout. No folder is made for its reports.
func ownWork(here *checkout.Checkout, lab *manifest.Lab) *choice {
	return &choice{Checkout: here, Lab: lab, Dir: here.Dir(lab), Out: filepath.Join(here.Root, "out", lab.Name)}
}

// standing is how far a student has got in a lab, as the reports say.
func (c *choice) standing() (row []string, err error) {
	lab := c.Lab
	score, when, next := "–", "never", fmt.Sprintf("make read-%d", lab.Number)
	last, err := c.lastIfThere(verdictDir, report.JSONFile)
	if err != nil {
		return nil, err
	}
	if last != nil {
		score = fmt.Sprintf("%d of %d", last.Score, last.MaxScore)
		switch {
		case last.Outcome != report.Graded:
			score += " (" + string(last.Outcome) + ")"
		case last.MaxScore < lab.FullScore():
			score += " (a part)"
		}
		when = last.Started.Local().Format("2 Jan 15:04")
		next = fmt.Sprintf("make lab-%d", lab.Number)
		if last.FullMarks() && last.MaxScore == lab.FullScore() {
			next = "done"
		}
	}
	best, err := c.lastIfThere(bestDir, report.JSONFile)
	if err != nil {
		return nil, err
	}
	if best != nil && (last == nil || best.Score > last.Score) {
		score += fmt.Sprintf(", best %d", best.Score)
	}
	return []string{lab.Name, lab.Title, score, when, next}, nil
}

// milestones has a row for each part of a lab that is built in parts, with the points of the part in the last run. It
// has no points if the run graded another part, and if there is no report that can be read; standing returns the error.
func (c *choice) milestones() (rows [][]string) {
	lab := c.Lab
	if len(lab.Parts()) == 0 {
		return nil
	}
	graded := map[string]report.Milestone{}
	if last, err := c.lastIfThere(verdictDir, report.JSONFile); err == nil && last != nil {
		for _, milestone := range last.Milestones() {
			graded[milestone.Name] = milestone
		}
	}
	for i, part := range lab.Parts() {
		score, next := "–", fmt.Sprintf("make watch-%d PART=%s", lab.Number, part)
		if last := graded[part]; last.MaxPoints > 0 {
			score = fmt.Sprintf("%d of %d", last.Points, last.MaxPoints)
			if last.Points == last.MaxPoints {
				next = "done"
			}
		}
		rows = append(rows, []string{fmt.Sprintf("  %d%c", lab.Number, 'a'+i), part, score, "", next})
	}
	return rows
}

// bestDir, in a lab's folder of reports, has the report with the highest score so far.
const bestDir = "best"

// keepBest keeps a verdict if no earlier one has as many points. A report that can't be read any more is of an older
// version of this course, and one of another folder was brought here: it is replaced.
func (c *choice) keepBest(verdict *report.Report) error {
	if verdict.Outcome == report.Error || c.Lab.Part != "" {
		return nil // it says nothing of the submission, or nothing of the other parts
	}
	best, err := c.last(bestDir, report.JSONFile)
	if err == nil && best.Score >= verdict.Score {
		return nil
	}
	return replaceReports(c.Out, []string{bestDir}, nil, func() error {
		return formats.Write(filepath.Join(c.Out, bestDir), *verdict)
	})
}

// lastIfThere is last; a report that is not there is nil.
func (c *choice) lastIfThere(file ...string) (*report.Report, error) {
	if _, err := os.Stat(filepath.Join(append([]string{c.Out}, file...)...)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c.last(file...)
}
