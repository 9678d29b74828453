// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package intake finds the submissions of a class: in folders, archives and Git repositories, and in the exports of
// Gradescope and Moodle. It finds the Go module that belongs to a lab (Find), and explains in a sentence why a
// submission can't be graded. Its input is untrusted, so the package limits all sizes, follows no link out of a
// submission, and runs none of its code. It does not grade.
package intake
