// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package rules reads class.yaml, the rules of a course, and computes marks from them: deadlines, points that late work
// loses, grace days, which attempt counts, weights of labs, and manual changes of the instructor. It does not grade and
// knows no lab: the caller gives it the points of each attempt. docs/reference/class-yaml.md describes the file.
package rules
