// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/classes/course/misconception"
	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/classes/course/similarity"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
)

// reportFiles are the files of an attempt's reports.
var reportFiles = []struct {
	name   string
	format formats.Format
}{
	{report.HTMLFile, formats.HTML},
	{"report.md", formats.Markdown},
	{report.JUnitFile, formats.JUnit},
	{"gradescope.json", formats.Gradescope},
	{"classroom50.json", formats.Classroom50},
	{report.JSONFile, formats.JSON},
}

// RemoveResults removes the files that an earlier run wrote into the folder of a class, so that they are not mistaken
// for the results of an interrupted run. The journal stays.
func RemoveResults(dir string) error {
	for _, name := range []string{GradebookFile, PageFile, FeedbackDir, StudentsDir} {
		if err := removal.All(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing the results of the previous run: %w: remove %s yourself", err, filepath.Join(dir, name))
		}
	}
	return nil
}

// About has the information for the results that is not in the submissions.
type About struct {
	// Root is the folder of the checkout. The page of the class links to its lectures. Empty: the page only names them.
	Root string
	// Misconceptions are the misconceptions of each lab, by its name.
	Misconceptions map[string][]misconception.Known
	// Code has, for each lab, the code that no student has written: skeleton and solution.
	Code map[string][]similarity.Document
	// Redactor hides the folders of the machine from students.
	Redactor *Redactor
}

// WriteResults writes the reports of all attempts, a feedback archive for each student, the page of the class and,
// last, the gradebook into the folder of a class.
func WriteResults(dir string, c *Class, about About) error {
	rows := c.Rows()
	redact := func(r *report.Report) (*report.Report, error) {
		pageLab := page.Lab{}
		if lab := c.lab(r.Lab); lab != nil {
			pageLab = lab.page()
		}
		return about.Redactor.Redact(r, &pageLab)
	}
	forStudents, err := c.page(rows, about.Misconceptions, redact, about.Redactor.Text)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		for _, cell := range row.Cells {
			for n := range cell.Attempts {
				if err := c.writeReports(dir, row.Student, &cell.Attempts[n]); err != nil {
					return err
				}
			}
		}
		var archive bytes.Buffer
		if err := writeFeedback(&archive, forStudents, row, redact); err != nil {
			return err
		}
		if err := write(filepath.Join(dir, FeedbackDir, row.Student+".zip"), archive.Bytes()); err != nil {
			return err
		}
	}
	if err := c.writePage(dir, rows, about); err != nil {
		return err
	}
	var gradebook bytes.Buffer
	if err := WriteGradebook(&gradebook, c.Labs, rows); err != nil {
		return err
	}
	return write(filepath.Join(dir, GradebookFile), gradebook.Bytes())
}

// writeReports writes the reports of an attempt in all formats. They contain the seed, because they are for the
// instructor, who may repeat the run.
func (c *Class) writeReports(dir, student string, a *Attempt) error {
	if a.Result == nil {
		return nil
	}
	own := *a.Result.Report
	own.Submission.Dir = a.Dir // equal work of two students is graded in the folder of one of them
	options := formats.Options{Classroom50: classroom50.Options{
		Classroom: c.Title, Assignment: a.Lab, AssignmentType: classroom50.AssignmentTypes[0], Owner: student,
		Submission: strconv.Itoa(a.Attempt), Submitted: a.Submitted,
	}}
	for _, file := range reportFiles {
		content, err := formats.Encode(&own, file.format, options)
		if err != nil {
			return fmt.Errorf("writing the reports of %s: %w", student, err)
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(reportsDir(student, a)), file.name), content); err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file as a whole, and creates its folder if necessary. Only the user who grades may read the file.
func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("creating a folder for the results: %w", err)
	}
	return replaceFile(file, content, func(*os.File) error { return nil })
}

// temporaryPrefix is the prefix of files that are being written.
const temporaryPrefix = ".writing-"

// replaceFile replaces a file as a whole: a reader never sees half of it, even if this process is killed.
func replaceFile(file string, content []byte, sync func(*os.File) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), removal.Temporary(temporaryPrefix))
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	_, err = temporary.Write(content)
	if err == nil {
		err = sync(temporary)
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
