// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// Standing returns a student's progress in a lab, according to the reports.
func (w *Work) Standing() (row []string, err error) {
	lab := w.Lab
	score, graded, next := "–", "never", fmt.Sprintf("make read-%d", lab.Number)
	last, err := w.lastIfThere(verdictDir, report.JSONFile)
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
	best, err := w.lastIfThere(bestDir, report.JSONFile)
	if err != nil {
		return nil, err
	}
	if best != nil && (last == nil || best.Score > last.Score) {
		score += fmt.Sprintf(", best %d", best.Score)
	}
	return []string{lab.Name, lab.Title, score, graded, next}, nil
}

// Milestones returns a row for each part of a lab that is built in parts, with the points of the part in the last run.
// A part has no points if the run graded another part, or if the report can't be read. Standing returns that error.
func (w *Work) Milestones() (rows [][]string) {
	lab := w.Lab
	if len(lab.Parts()) == 0 {
		return nil
	}
	graded := map[string]report.Milestone{}
	if last, err := w.lastIfThere(verdictDir, report.JSONFile); err == nil && last != nil {
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

// KeepBest stores a verdict unless an earlier one has at least as many points. It replaces a report that can't be read,
// because it is from an older version of this course. It also replaces a report on another folder, because it was
// copied here.
func (w *Work) KeepBest(verdict *report.Report) error {
	if verdict.Outcome == report.Error || w.Lab.Part != "" {
		return nil // it is no verdict on the submission, or only on one part
	}
	best, err := w.last(bestDir, report.JSONFile)
	if err == nil && best.Score >= verdict.Score {
		return nil
	}
	return report.Replace(w.Out, []string{bestDir}, nil, func() error {
		return formats.Write(filepath.Join(w.Out, bestDir), *verdict)
	})
}

// Forget removes the reports and the hints of the lab, because they describe the old work. The best report stays.
func (w *Work) Forget() error {
	entries, err := os.ReadDir(w.Out)
	if err != nil {
		return fmt.Errorf("looking for old reports: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == bestDir {
			continue
		}
		if err := os.RemoveAll(filepath.Join(w.Out, entry.Name())); err != nil {
			return fmt.Errorf("removing old reports: %w", err)
		}
	}
	return nil
}

// lastIfThere calls last. It returns nil for a missing report.
func (w *Work) lastIfThere(file ...string) (*report.Report, error) {
	if _, err := os.Stat(filepath.Join(append([]string{w.Out}, file...)...)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w.last(file...)
}
