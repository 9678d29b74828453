// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package course grades the submissions of a class: several at a time, each once, and after an interruption it goes on
// where it was. The result of each submission is in a journal, and the gradebook, the reports and the feedback archives
// are made of that.
//
// It grades nothing itself: a Grader does (package course/grader). It finds no submissions (package course/intake), and
// knows no deadlines (package course/rules).
package course
