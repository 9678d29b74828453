// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package formats writes a report in all the forms that there are: into the folder of a run, or one of them for a
// program. Each form is a package beside this one; what a terminal shows is in report/terminal.
package formats

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/gradescope"
	"lva.io/operators/scripts/grading/report/html"
	"lva.io/operators/scripts/grading/report/junit"
	"lva.io/operators/scripts/grading/report/markdown"
)

// Format is a form in which a report can be written.
type Format string

// All that there are.
const (
	JSON        Format = "json"
	JUnit       Format = "junit"
	Gradescope  Format = "gradescope"
	Classroom50 Format = "classroom50"
	Markdown    Format = "markdown"
	HTML        Format = "html"
)

// All are all of them.
var All = []Format{JSON, JUnit, Gradescope, Classroom50, Markdown, HTML}

// Options are what a report does not know and a format wants. Each format reads its own and no others.
type Options struct {
	Gradescope  gradescope.Options
	Classroom50 classroom50.Options
}

// publishes are the formats that give a score to another program, which takes it for the student's grade.
var publishes = []Format{Gradescope, Classroom50}

// Encode writes a sanitized report in one of the formats. Those that publish a grade refuse a partial verdict: its
// points are only those that one machine could decide, so all of them would look like full marks.
func Encode(r *report.Report, format Format, options Options) ([]byte, error) {
	if r.Undecided > 0 && slices.Contains(publishes, format) {
		return nil, fmt.Errorf("%s publishes a grade, and the last run of lab %s has none, since %s: "+
			"grade it without --without-node, on a machine that can run Pods", format, r.Number(), r.Partial())
	}
	safe := *r
	safe.Sanitize()
	var data bytes.Buffer
	var err error
	switch format {
	case JSON:
		return safe.JSON()
	case JUnit:
		err = junit.Write(&data, &safe)
	case Gradescope:
		err = gradescope.Write(&data, &safe, options.Gradescope)
	case Classroom50:
		err = classroom50.Write(&data, &safe, options.Classroom50)
	case Markdown:
		err = markdown.Write(&data, &safe)
	case HTML:
		err = html.Write(&data, &safe, "")
	default:
		err = fmt.Errorf("there is no format %q: choose one of %s", format, Names())
	}
	return data.Bytes(), err
}

// Names lists all formats for a person.
func Names() string {
	names := make([]string, len(All))
	for i, format := range All {
		names[i] = string(format)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Write makes report.json, report.html and junit.xml in a folder, and the folder if need be. Each file is there as a
// whole or not at all, and nothing is written if the report contradicts itself.
func Write(dir string, r report.Report) error {
	r.Sanitize()
	data, err := r.JSON()
	if err != nil {
		return err
	}
	var junitXML, page bytes.Buffer
	if err := errors.Join(junit.Write(&junitXML, &r), html.Write(&page, &r, dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for the report: %w", err)
	}
	// report.json is last: who waits for it finds the others there.
	for _, file := range []struct {
		name    string
		content []byte
	}{{report.JUnitFile, junitXML.Bytes()}, {report.HTMLFile, page.Bytes()}, {report.JSONFile, data}} {
		if err := report.WriteFile(filepath.Join(dir, file.name), file.content); err != nil {
			return err
		}
	}
	return nil
}
