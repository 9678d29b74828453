// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package mutate makes wrong solutions out of a right one: each differs in one small change of its syntax tree or of
// one marker. Nobody chose them, so they judge the checks from outside, unlike the mutants of mutants.yaml, whose
// authors knew the checks. It also keeps what became of them. It grades none.
package mutate
