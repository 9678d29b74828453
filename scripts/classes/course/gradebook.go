// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// Names of the files that a class run writes, relative to the folder of a class.
const (
	GradebookFile = "gradebook.csv"
	PageFile      = "class.html"
	StudentsDir   = "students"
	FeedbackDir   = "feedback"
)

// columns are a lab's columns in the gradebook. The lab's name precedes each of them.
var columns = []string{"attempt", "points", "max", "late days", "final", "outcome", "comment", "report"}

// WriteGradebook writes the gradebook as CSV (RFC 4180): a row for each student, with these columns for each lab, and
// the total in percent. A final grade that must not be published is empty.
func WriteGradebook(w io.Writer, labs []Lab, rows []Row) error {
	out := csv.NewWriter(w)
	header := []string{"student"}
	for _, lab := range labs {
		for _, column := range columns {
			header = append(header, lab.Name+" "+column)
		}
	}
	err := out.Write(append(header, "total"))
	for _, row := range rows {
		fields := []string{row.Student}
		for i := range row.Cells {
			fields = append(fields, row.Cells[i].fields(row.Student)...)
		}
		total := ""
		if row.Known {
			total = decimal(row.Total)
		}
		fields = append(fields, total)
		for i := range fields {
			fields[i] = plain(fields[i])
		}
		err = errors.Join(err, out.Write(fields))
	}
	out.Flush()
	if err = errors.Join(err, out.Error()); err != nil {
		return fmt.Errorf("writing the gradebook: %w", err)
	}
	return nil
}

func (c *Cell) fields(student string) []string {
	attempt, points, final, page := "", "", "", ""
	if c.Counted != nil {
		attempt = strconv.Itoa(c.Counted.Attempt)
	}
	if c.Known && !c.Mark.Excused {
		points, final = strconv.Itoa(c.Mark.Points), decimal(c.Mark.Final)
	}
	if c.Counted != nil && c.Counted.Result != nil {
		page = path.Join(reportsDir(student, c.Counted), report.HTMLFile)
	}
	return []string{
		attempt, points, strconv.Itoa(c.Mark.Max), strconv.Itoa(c.Mark.Late), final, c.Outcome, c.comment(), page,
	}
}

// comment returns the instructor's comment, and the reason why there is no grade.
func (c *Cell) comment() string {
	var parts []string
	for _, part := range []string{c.Mark.Comment, c.Problem} {
		if part != "" {
			parts = append(parts, report.OneLine(part))
		}
	}
	return strings.Join(parts, "; ")
}

// reportsDir returns the folder of an attempt's reports, slash-separated and relative to the folder of the class.
func reportsDir(student string, a *Attempt) string {
	return path.Join(StudentsDir, student, a.Lab, strconv.Itoa(a.Attempt))
}

// plain changes a text so that a spreadsheet does not read it as a formula.
// (owasp.org/www-community/attacks/CSV_Injection)
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "'" + text
		}
	}
	return text
}

// decimal formats a number with at most two digits after the point.
func decimal(number float64) string {
	return strconv.FormatFloat(math.Round(number*100)/100, 'f', -1, 64)
}
