// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/report/formats"
)

// feedbackFiles are what a student gets of each lab.
var feedbackFiles = []struct {
	name   string
	format formats.Format
}{
	{report.HTMLFile, formats.HTML},
	{"report.md", formats.Markdown},
	{report.JSONFile, formats.JSON},
}

// GradesFile is the page of a feedback archive that has the grades.
const GradesFile = "grades.md"

// WriteFeedback writes what a student gets as a zip archive: a page with the grades, and of each lab the report of the attempt that counts. It
// names no other student, no seed and no folder of the machine, and equal grades and reports make equal archives.
func WriteFeedback(w io.Writer, title string, labs []Lab, row *Row, redactor *Redactor) error {
	archive := zip.NewWriter(w)
	add := func(name string, content []byte) error {
		file, err := archive.CreateHeader(&zip.FileHeader{
			Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), // the earliest that the format knows
		})
		if err == nil {
			_, err = file.Write(content)
		}
		if err != nil {
			return fmt.Errorf("writing the feedback for %s: %w", row.Student, err)
		}
		return nil
	}
	if err := add(GradesFile, grades(title, labs, row, redactor)); err != nil {
		return err
	}
	for i := range row.Cells {
		counted := row.Cells[i].Counted
		if counted == nil || counted.Result == nil {
			continue
		}
		redacted, err := redactor.Redact(counted.Result.Report)
		if err != nil {
			return fmt.Errorf("making the feedback for %s: %w", row.Student, err)
		}
		for _, file := range feedbackFiles {
			content, err := formats.Encode(redacted, file.format, formats.Options{})
			if err == nil {
				err = add(path.Join(counted.Lab, file.name), content)
			}
			if err != nil {
				return fmt.Errorf("making the feedback for %s: %w", row.Student, err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the feedback for %s: %w", row.Student, err)
	}
	return nil
}

// grades is the page with the grades, as Markdown.
func grades(title string, labs []Lab, row *Row, redactor *Redactor) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n\n", inCell(title), inCell(row.Student))
	text.WriteString("| lab | attempt | points | late days | grace days | penalty | added | final | result |\n|---|---|---|---|---|---|---|---|---|\n")
	for i, lab := range labs {
		c := &row.Cells[i]
		attempt, points, final := "", "", "no grade yet"
		if c.Counted != nil {
			attempt = fmt.Sprintf("%d of %d", c.Counted.Attempt, len(c.Attempts))
		}
		switch {
		case c.Mark.Excused:
			final = ""
		case c.Known:
			points, final = fmt.Sprintf("%d of %d", c.Mark.Points, c.Mark.Max), decimal(c.Mark.Final)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %d | %d | %s | %s | %s | %s |\n", inCell(lab.Name+": "+lab.Title), attempt, points, c.Mark.Late,
			c.Mark.GraceUsed, decimal(c.Mark.Penalty), decimal(c.Mark.Manual), final, c.Outcome)
	}
	if row.Known {
		fmt.Fprintf(&text, "\nTotal: %s %%\n", decimal(row.Total))
	}
	for i, lab := range labs {
		c := &row.Cells[i]
		for _, said := range []string{c.Mark.Comment, redactor.Text(c.Problem)} {
			if said != "" {
				fmt.Fprintf(&text, "\n%s: %s\n", lab.Name, report.OneLine(said))
			}
		}
		if c.Counted != nil && c.Counted.Result != nil {
			fmt.Fprintf(&text, "\n%s: [report](%s)\n", lab.Name, path.Join(lab.Name, report.HTMLFile))
		}
	}
	return []byte(text.String())
}

// inCell is a text that ends no cell of a table.
func inCell(text string) string { return strings.ReplaceAll(report.OneLine(text), "|", `\|`) }
