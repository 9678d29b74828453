// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package terminal prints a grading run for a person. It neither grades nor reads files.
//
// There are two ways to print a run, and both look the same. During the run, Live prints the header, and each step
// and each check when it ends. Verdict then prints the result: the failure nearest to the cause, with what was
// expected, what was observed and the requests to the API server, and the score with what to do next. Later, Render
// prints all of this from a stored report. RenderTests prints the report of a student's own tests.
//
// On a terminal, the output has colours (unless NO_COLOR is set), marks and a spinner, and lines are wrapped to its
// width. In a pipe, a file or with TERM=dumb, the output has one plain line for each item, which begins with a word to
// grep for: step, ok, FAIL, skip, measured, fixed, fix first, expected, observed, evidence, lecture, hint, read, also
// failed, outcome, reason, forbidden, notice, error, log, files, seed.
//
// To see it, `go run ./grading/report/terminal/testdata/demo graded-failed` from scripts/.
package terminal
