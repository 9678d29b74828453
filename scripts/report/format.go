// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Format is a form in which a report can be written.
type Format string

// What a terminal shows is in package terminal; it is no file for a program.
const (
	FormatJSON        Format = "json"
	FormatJUnit       Format = "junit"
	FormatGradescope  Format = "gradescope"
	FormatClassroom50 Format = "classroom50"
	FormatMarkdown    Format = "markdown"
	FormatHTML        Format = "html"
)

// Formats are all there are.
var Formats = []Format{FormatJSON, FormatJUnit, FormatGradescope, FormatClassroom50, FormatMarkdown, FormatHTML}

// FormatOptions are what a report does not know and a format wants. Each format reads its own and no others.
type FormatOptions struct {
	Gradescope  GradescopeOptions
	Classroom50 Classroom50Options
}

// Encode writes a sanitized report in one of the formats.
func (r *Report) Encode(format Format, options FormatOptions) ([]byte, error) {
	safe := *r
	safe.Sanitize()
	var data bytes.Buffer
	var err error
	switch format {
	case FormatJSON:
		return safe.JSON()
	case FormatJUnit:
		err = WriteJUnit(&data, &safe)
	case FormatGradescope:
		err = WriteGradescope(&data, &safe, options.Gradescope)
	case FormatClassroom50:
		err = WriteClassroom50(&data, &safe, options.Classroom50)
	case FormatMarkdown:
		err = WriteMarkdown(&data, &safe)
	case FormatHTML:
		err = WriteHTML(&data, &safe, "")
	default:
		err = fmt.Errorf("there is no format %q: choose one of %s", format, FormatNames())
	}
	return data.Bytes(), err
}

// FormatNames lists all formats for a person.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, format := range Formats {
		names[i] = string(format)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
