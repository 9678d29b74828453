// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package work grades a student's work on a lab, and keeps the reports of its runs: the last one, the last verdict, the
// best score, and which parts of the lab are done. A submission runs as the same user and may have written into the
// folder of the reports. So each run replaces what it finds there, and reports that no run can have written are
// ignored.
//
// A run itself belongs to package grade, and its place to package placement. The student's own tests are graded by
// package testgrade of the authoring wing, which this package calls through the interface OwnTests. The package knows
// the commands that a person can type next, but it parses no flags.
package work
