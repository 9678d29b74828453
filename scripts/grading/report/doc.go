// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package report is the model of one grading run, and its versioned JSON. It decides no grade, and of the forms that
// people and other tools read it knows only the texts that several of them share: each form is a package below it, a
// function of the report and nothing else, and formats has them all. What such a file demands is written down in
// testdata/formats. In each of them a run without a grade says so and why, and can't be taken for a pass.
//
// The types are the JSON, described field by field in report.schema.json. Whatever comes from a submission (its log,
// its compiler errors, what its objects hold) is made safe by Sanitize before it is written: valid UTF-8, nothing that
// steers a terminal, nothing that XML 1.0 forbids, no line without end.
package report
