// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package mutate generates incorrect solutions from a correct one: each differs in one small change of its syntax tree
// or of one marker. No author chose the changes, so they are an independent measure of the checks. The authors of the
// mutants in mutants.yaml knew the checks. The package also records the results. It does not grade mutants.
package mutate
