// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package report is the model of one grading run, its versioned JSON and its JUnit XML; it decides no grade, and what a person
// sees on a terminal is in report/terminal.
//
// The types are the JSON, described field by field in report.schema.json. Whatever comes from a submission (its log, its
// compiler errors, what its objects hold) is made safe by Sanitize before it is written: valid UTF-8, nothing that steers a
// terminal, nothing that XML 1.0 forbids, no line without end.
package report
