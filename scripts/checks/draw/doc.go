// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package draw draws random test cases from a seed, tries several at a time, and shrinks the first failing case as far
// as possible. It knows no lab, and does not know what a case is.
package draw
