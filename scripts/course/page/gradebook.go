// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Gradebook writes a table for spreadsheets and learning platforms, as CSV (RFC 4180): a line for each student in
// alphabetical order, with the total in percent, and for each lab the final points, the points of the run, days late,
// points by hand, the attempt and the outcome. A lab without a grade has an empty field for its points, and 0 if
// nothing was handed in. Text that a spreadsheet would take for a formula has an apostrophe before it
// (https://owasp.org/www-community/attacks/CSV_Injection).
func Gradebook(w io.Writer, c *Class) error {
	out := csv.NewWriter(w)
	head := []string{"student", "total"}
	for _, lab := range c.Labs {
		for _, column := range []string{"final", "points", "late", "manual", "attempt", "outcome"} {
			head = append(head, lab.Name+" "+column)
		}
	}
	lines := [][]string{head}
	for _, s := range newView(c).Students {
		line := []string{noFormula(s.Name), points(s.Total)}
		for _, lab := range c.Labs {
			work := s.work(lab.Name)
			switch {
			case work == nil:
				line = append(line, "0", "", "", "", "", "missing")
			case !work.hasGrade():
				line = append(line, "", "", strconv.Itoa(work.Late), points(work.Manual), strconv.Itoa(work.Attempt), noFormula(work.Outcome))
			default:
				line = append(line, points(work.Final), strconv.Itoa(work.Points), strconv.Itoa(work.Late), points(work.Manual), strconv.Itoa(work.Attempt), noFormula(work.Outcome))
			}
		}
		lines = append(lines, line)
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("writing the gradebook: %w", err)
	}
	return nil
}

func noFormula(text string) string {
	text = strings.Map(visible, text)
	if strings.ContainsAny(text[:min(1, len(text))], "=+-@\t\r\n|") {
		return "'" + text
	}
	return text
}
