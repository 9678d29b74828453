// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package terminal shows a grading run to a person; it neither grades nor reads files.
//
// There are two ways to see a run, and both look the same. While it is going on, Live prints the header, each step and
// each check as they end, and Verdict prints what comes of it: the failure nearest to the cause with what was expected,
// observed and asked of the API server, and the score with what to do next. Later, Render prints all of that from a
// stored report.
//
// On a terminal there are colours (unless NO_COLOR is set), marks and a spinner, and lines are wrapped to its width. In
// a pipe, a file or with TERM=dumb there is one plain line for each thing, which begins with a word to grep for: step,
// ok, FAIL, skip, measured, fixed, fix first, expected, observed, evidence, lecture, hint, read, also failed, outcome,
// reason, forbidden, notice, error, log, files, seed.
//
// To see it, `go run ./grading/report/terminal/testdata/demo graded-failed` from scripts/.
package terminal
