// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package grading holds the run of one submission for one lab, from reading its files to writing its report.
//
// A run builds the submission, starts its operator on a stage, injects faults, reads the audit log and the operator's
// log, runs the checks of the lab, and writes the report in each format. The checks themselves are in scripts/checks.
// The grading of a class is in scripts/classes, and the grading of a student's own tests in
// scripts/authoring/testgrade.
package grading
