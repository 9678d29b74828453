// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package report defines the result of one grading run and its versioned JSON. It decides no grade. It also replaces
// the files of a folder of reports, in which a submission may have left its own, and keeps values beside them that a
// later run needs. Each other format for people and tools is a package below it, and depends on nothing but the report.
// Package formats lists all of them, and this package has only the texts that several of them share. The requirements
// of the formats are in testdata/formats. In each format, a run without a grade is marked as such, with the reason, so
// that it can't be mistaken for a pass.
//
// The types mirror the JSON, and report.schema.json describes each field. Sanitize makes everything that comes from a
// submission (its log, its compiler errors, the contents of its objects) safe before it is written: it is valid UTF-8,
// has no control sequences for terminals and no characters that XML 1.0 forbids, and the length of its lines is
// limited.
package report
