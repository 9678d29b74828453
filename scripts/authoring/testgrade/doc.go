// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package testgrade grades a student's own tests by mutants: the tests are laid over our solution of the lab and over
// each of its mutants. They must pass on the student's operator and on ours, and fail on most of the mutants. It grades
// no operator, and remembers nothing.
package testgrade
