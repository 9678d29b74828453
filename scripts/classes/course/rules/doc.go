// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package rules reads class.yaml, the rules of a course, and computes marks by them: deadlines, points that late work
// loses, grace days, which attempt counts, weights of labs, and what the instructor adds by hand. It grades nothing and
// knows no lab: it gets the points of each attempt. docs/reference/class-yaml.md describes the file.
package rules
