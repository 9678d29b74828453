// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// feedbackFiles are the files that a student gets for each lab.
var feedbackFiles = []struct {
	name   string
	format formats.Format
}{
	{report.HTMLFile, formats.HTML},
	{"report.md", formats.Markdown},
	{report.JSONFile, formats.JSON},
}

// GradesFile is the page of a feedback archive that has the grades.
const GradesFile = "index.html"

// writeFeedback writes a student's feedback as a zip archive: a page with the grades, and for each lab the report of
// the attempt that counts. The archive names no other student, no seed and no folder of the machine. Equal grades and
// reports make equal archives. all is the page of the class with redacted reports, and seen redacts a report.
func writeFeedback(w io.Writer, all *page.Class, row *Row, seen redaction) error {
	archive := zip.NewWriter(w)
	add := func(name string, content []byte) error {
		file, err := archive.CreateHeader(&zip.FileHeader{
			// The time is the earliest that the format knows.
			Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
		})
		if err == nil {
			_, err = file.Write(content)
		}
		if err != nil {
			return fmt.Errorf("writing the feedback for %s: %w", row.Student, err)
		}
		return nil
	}
	var grades bytes.Buffer
	if err := page.Feedback(&grades, onlyStudent(all, row.Student), row.Student); err != nil {
		return err
	}
	if err := add(GradesFile, grades.Bytes()); err != nil {
		return err
	}
	for i := range row.Cells {
		counted := row.Cells[i].Counted
		if counted == nil || counted.Result == nil {
			continue
		}
		redacted, err := seen(counted.Result.Report)
		if err != nil {
			return fmt.Errorf("creating the feedback for %s: %w", row.Student, err)
		}
		for _, file := range feedbackFiles {
			content, err := formats.Encode(redacted, file.format, formats.Options{})
			if err == nil {
				err = add(path.Join(counted.Lab, file.name), content)
			}
			if err != nil {
				return fmt.Errorf("creating the feedback for %s: %w", row.Student, err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the feedback for %s: %w", row.Student, err)
	}
	return nil
}

// onlyStudent returns a class with only one student.
func onlyStudent(all *page.Class, student string) *page.Class {
	own := &page.Class{Title: all.Title, Labs: all.Labs}
	for _, s := range all.Students {
		if s.Name == student {
			s.Works = slices.Clone(s.Works)
			for i := range s.Works {
				if w := &s.Works[i]; w.Report != "" {
					w.Report = path.Join(w.Lab, report.HTMLFile)
				}
			}
			own.Students = append(own.Students, s)
		}
	}
	for _, m := range all.Misconceptions {
		if slices.Contains(m.Students, student) {
			m.Students = []string{student}
			own.Misconceptions = append(own.Misconceptions, m)
		}
	}
	return own
}
