// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package testgrade grades a student's own tests with mutants. It copies the tests over the lab's solution and over
// each of its mutants. They must pass on the student's operator and on the solution, and fail on most of the mutants.
// It does not grade the operator. It records which mutants the tests have missed, and keeps the results beside the
// reports of package work, so that a run does not repeat what has not changed.
package testgrade
