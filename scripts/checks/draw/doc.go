// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package draw draws random test cases from a seed, tries several at a time, and shrinks the first that fails to one as
// small as possible. It knows no lab, and does not know what a case is.
package draw
