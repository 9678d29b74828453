// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"

	"lva.io/operators/scripts/classes/course/misconception"
	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/classes/course/similarity"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/report"
)

// fileLimit is the maximum size of a file of which a page shows a region, in bytes.
const fileLimit = 1 << 20

// redaction returns the version of a report that its reader may see.
type redaction func(*report.Report) (*report.Report, error)

// page returns the lab as pages show it.
func (l *Lab) page() page.Lab {
	return page.Lab{Name: l.Name, Number: l.Number, Title: l.Title, Max: l.Max, Checks: l.Checks}
}

// page returns the class as its pages show it. known holds the misconceptions of each lab, by its name. seen redacts a
// report for the reader, and text redacts a sentence about one.
func (c *Class) page(
	rows []Row, known map[string][]misconception.Known, seen redaction, text func(string) string,
) (*page.Class, error) {
	p := &page.Class{Title: c.Title, Walls: c.Walls, Notices: c.Notices}
	for _, lab := range c.Labs {
		p.Labs = append(p.Labs, lab.page())
	}
	for i := range rows {
		row := &rows[i]
		student := page.Student{Name: row.Student, Total: row.Total}
		for j := range row.Cells {
			cell := &row.Cells[j]
			if cell.Counted != nil || cell.Mark.Excused || cell.Mark.Manual != 0 || cell.Mark.Comment != "" {
				work, err := cell.work(row.Student, seen, text)
				if err != nil {
					return nil, err
				}
				student.Works = append(student.Works, *work)
			}
		}
		p.Students = append(p.Students, student)
	}
	for _, lab := range c.Labs {
		p.Misconceptions = append(p.Misconceptions, page.Explain(lab.Name, p.Students, known[lab.Name])...)
	}
	c.timeLine(p)
	return p, nil
}

// work returns a cell as a page shows it.
func (c *Cell) work(student string, seen redaction, text func(string) string) (*page.Work, error) {
	w := &page.Work{
		Lab: c.Lab, Attempts: len(c.Attempts), Points: c.Mark.Points, Max: c.Mark.Max, Final: c.Mark.Final,
		Late: c.Mark.Late, Grace: c.Mark.GraceUsed, Penalty: c.Mark.Penalty, Manual: c.Mark.Manual,
		Comment: c.Mark.Comment, Outcome: c.Outcome, Reason: text(c.Problem),
	}
	switch {
	case c.Outcome == Unusable:
		w.Outcome = page.OutcomeUnreadable
	case c.Mark.Excused:
		w.Outcome = page.OutcomeExcused
	case !c.Known:
		w.Outcome = string(report.Error) // regardless of the results of other attempts
	}
	if c.Mark.TooLate {
		w.Look = append(w.Look, "handed in too late")
	}
	if c.Counted == nil {
		return w, nil
	}
	w.Attempt = c.Counted.Attempt
	result := c.Counted.Result
	if result == nil || c.Mark.Excused {
		return w, nil
	}
	w.Report = path.Join(reportsDir(student, c.Counted), report.HTMLFile)
	if result.Try > 1 {
		w.Look = append(w.Look, fmt.Sprintf("graded at the %s try", []string{"second", "third"}[min(result.Try, Tries)-2]))
	}
	shown, err := seen(result.Report)
	if err != nil {
		return nil, err
	}
	for _, check := range shown.Checks {
		switch check.Status {
		case report.Failed:
			w.Failed = append(w.Failed, page.Failure{Check: check.ID, Expected: check.Expected, Observed: check.Observed})
		case report.Skipped:
			if !check.Extension {
				w.Skipped = append(w.Skipped, check.ID)
			}
		case report.Passed:
		}
	}
	return w, nil
}

// timeLine adds each run once.
func (c *Class) timeLine(p *page.Class) {
	seen := map[Key]bool{}
	var runs []Result
	for _, s := range c.Submissions {
		key, ok := c.key(s)
		if result, known := c.Results[key]; ok && known && !seen[key] {
			seen[key] = true
			runs = append(runs, result)
		}
	}
	slices.SortStableFunc(runs, func(a, b Result) int { return a.Started.Compare(b.Started) })
	if len(runs) == 0 {
		return
	}
	p.Started = runs[0].Started
	for _, r := range runs {
		span := page.Span{
			Student: r.Student, Lab: r.Lab, Slot: r.Slot, Start: r.Started.Sub(p.Started),
			Took:    time.Duration(r.Seconds * float64(time.Second)),
			Outcome: string(r.Outcome), Points: r.Score, Max: r.Max,
		}
		p.Run, p.Took = append(p.Run, span), max(p.Took, span.Start+span.Took)
	}
}

// alike finds similar works. knownCode holds, for each lab, the code that no student has written.
func (c *Class) alike(rows []Row, knownCode map[string][]similarity.Document) []page.Alike {
	var all []page.Alike
	for i, lab := range c.Labs {
		var documents []similarity.Document
		for _, row := range rows {
			if counted := row.Cells[i].Counted; counted != nil && counted.Dir != "" {
				// Similarity is only a signal: work that can't be read is left out.
				if document, err := similarity.Folder(row.Student, counted.Dir); err == nil {
					documents = append(documents, document)
				}
			}
		}
		for _, pair := range similarity.Compare(documents, similarity.Options{Known: knownCode[lab.Name]}) {
			all = append(all, page.Alike{Lab: lab.Name, Pair: pair})
		}
	}
	return all
}

// writePage writes the page of the class.
func (c *Class) writePage(dir string, rows []Row, about About) error {
	p, err := c.page(rows, about.Misconceptions, asItIs, func(text string) string { return text })
	if err != nil {
		return err
	}
	p.Alike = c.alike(rows, about.Code)
	dirs := map[[2]string]string{}
	for _, row := range rows {
		for _, cell := range row.Cells {
			if cell.Counted != nil {
				dirs[[2]string{row.Student, cell.Lab}] = cell.Counted.Dir
			}
		}
	}
	p.Source = func(student, lab, file string) ([]byte, error) {
		return limited.ReadFile(dirs[[2]string{student, lab}], file, fileLimit)
	}
	if leads, err := filepath.Rel(dir, about.Root); about.Root != "" && err == nil {
		p.LectureBase = filepath.ToSlash(leads) + "/"
	}
	var content bytes.Buffer
	if err := page.Write(&content, p); err != nil {
		return err
	}
	return write(filepath.Join(dir, PageFile), content.Bytes())
}

func asItIs(r *report.Report) (*report.Report, error) { return r, nil }
