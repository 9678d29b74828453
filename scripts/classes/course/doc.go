// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package course grades the submissions of a class: several at a time, and each of them once. After an interruption it
// continues where it stopped. A journal records the result of each submission, and the package writes the gradebook,
// the reports and the feedback archives from it.
//
// It does not grade by itself, but calls a Grader (package course/grader). It does not find submissions (package
// course/intake), and knows no deadlines (package course/rules).
package course
