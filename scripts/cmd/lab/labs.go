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
		work := ownWork(repo, lab)
		row, err := work.standing()
		if err != nil {
			// The report is from another version, or damaged. The other labs must still be listed.
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

// ownWork returns the student's work on a lab of the checkout. It creates no folder for reports.
func ownWork(repo *checkout.Checkout, lab *manifest.Lab) *choice {
	return &choice{Checkout: repo, Lab: lab, Dir: repo.Dir(lab), Out: filepath.Join(repo.Root, "out", lab.Name)}
}

// standing returns a student's progress in a lab, according to the reports.
func (c *choice) standing() (row []string, err error) {
	lab := c.Lab
	score, graded, next := "–", "never", fmt.Sprintf("make read-%d", lab.Number)
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
		graded = last.Started.Local().Format("2 Jan 15:04")
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
	return []string{lab.Name, lab.Title, score, graded, next}, nil
}

// milestones returns a row for each part of a lab that is built in parts, with the points of the part in the last run.
// A part has no points if the run graded another part, or if the report can't be read. standing returns that error.
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

// bestDir, in a lab's folder of reports, holds the report with the highest score so far.
const bestDir = "best"

// keepBest stores a verdict unless an earlier one has at least as many points. It replaces a report that can't be read,
// because it is from an older version of this course. It also replaces a report on another folder, because it was
// copied here.
func (c *choice) keepBest(verdict *report.Report) error {
	if verdict.Outcome == report.Error || c.Lab.Part != "" {
		return nil // it is no verdict on the submission, or only on one part
	}
	best, err := c.last(bestDir, report.JSONFile)
	if err == nil && best.Score >= verdict.Score {
		return nil
	}
	return report.Replace(c.Out, []string{bestDir}, nil, func() error {
		return formats.Write(filepath.Join(c.Out, bestDir), *verdict)
	})
}

// lastIfThere calls last. It returns nil for a missing report.
func (c *choice) lastIfThere(file ...string) (*report.Report, error) {
	if _, err := os.Stat(filepath.Join(append([]string{c.Out}, file...)...)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c.last(file...)
}
