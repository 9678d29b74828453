// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package classes groups the tools for a whole class: accounts on a shared cluster, and the grading of all submissions.
//
// It finds the submissions, grades each of them once, applies the deadlines and points of class.yaml, and compares
// submissions for similarity. The grading of a single submission is in scripts/grading.
package classes
