// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package report is the model of one grading run, its versioned JSON, its page and the forms that other tools read; it decides no
// grade, and what a person sees on a terminal is in report/terminal.
//
// A form is a function of the report and nothing else: JUnit XML (junit.go), Gradescope's results.json, Classroom 50's
// result.json, a summary in Markdown, and the page (html.go, whose three files are in page/). What such a file demands is written
// down in testdata/formats. In each of them a run without a grade says so and why, and can't be taken for a pass.
//
// The types are the JSON, described field by field in report.schema.json. Whatever comes from a submission (its log, its
// compiler errors, what its objects hold) is made safe by Sanitize before it is written: valid UTF-8, nothing that steers a
// terminal, nothing that XML 1.0 forbids, no line without end.
package report
