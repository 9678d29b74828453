// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package formats writes a report in any of its formats: several files into the folder of a run, or a single one for
// another program. Each format is a package beside this one. The output for a terminal is in report/terminal.
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

// Format is a file format in which a report can be written.
type Format string

// The formats.
const (
	JSON        Format = "json"
	JUnit       Format = "junit"
	Gradescope  Format = "gradescope"
	Classroom50 Format = "classroom50"
	Markdown    Format = "markdown"
	HTML        Format = "html"
)

// All lists all formats.
var All = []Format{JSON, JUnit, Gradescope, Classroom50, Markdown, HTML}

// Options are the facts that a format needs and that a report does not contain. Each format reads only its own
// options.
type Options struct {
	Gradescope  gradescope.Options
	Classroom50 classroom50.Options
}

// publishes lists the formats that give a score to another program, which takes it for the student's grade.
var publishes = []Format{Gradescope, Classroom50}

// Encode writes a sanitized report in one of the formats. Formats that publish a grade refuse a partial verdict. Its
// points are only those that one machine could decide, so all of them would look like full marks.
func Encode(r *report.Report, format Format, options Options) ([]byte, error) {
	if r.Undecided > 0 && slices.Contains(publishes, format) {
		return nil, fmt.Errorf("%s publishes a grade, but the last run of lab %s has none, because %s: "+
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

// Names returns the names of all formats, for people.
func Names() string {
	names := make([]string, len(All))
	for i, format := range All {
		names[i] = string(format)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Files are the files that Write writes. The JSON report comes first, because it counts even if the others can't be
// removed.
var Files = []string{report.JSONFile, report.JUnitFile, report.HTMLFile}

// Write writes report.json, report.html and junit.xml into a folder, which it creates if necessary. It writes each file
// atomically, and writes nothing if the report contradicts itself.
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
		return fmt.Errorf("creating a folder for the report: %w", err)
	}
	// report.json is written last, so that a reader that waits for it finds the other files.
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

// WriteTests writes the report of a student's own tests into a folder, as tests.json and tests.html.
func WriteTests(dir string, t *report.Tests) error {
	content, err := t.JSON()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := html.WriteTests(&page, t); err != nil {
		return err
	}
	return report.Replace(dir, []string{report.TestsJSONFile, report.TestsHTMLFile}, nil, func() error {
		if err := report.WriteFile(filepath.Join(dir, report.TestsJSONFile), content); err != nil {
			return err
		}
		return report.WriteFile(filepath.Join(dir, report.TestsHTMLFile), page.Bytes())
	})
}
