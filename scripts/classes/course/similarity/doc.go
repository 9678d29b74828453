// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package similarity finds submissions that look alike, for a person to review. It gives no verdict, and does not say
// who copied from whom: two friends, one tutor and one page on the web leave the same traces.
//
// It compares Go code in four steps:
//
//  1. Each declaration becomes a sequence of tokens of go/scanner, without anything that can be changed at no cost.
//     Names that the submission itself declares and all literals become one token. Comments, imports, constants and the
//     order of statements in a block are dropped. Names of other modules stay, since no copy can rename them. See read.
//  2. Winnowing (Schleimer, Wilkerson and Aiken: Winnowing, local algorithms for document fingerprinting, SIGMOD 2003)
//     chooses fingerprints among the hashes of k consecutive tokens: every common sequence of k+w-1 tokens leaves at
//     least one in both.
//  3. A fingerprint of the skeleton or the solution is dropped, and so is one that most submissions have.
//  4. The score of a pair is the weight of the fingerprints that both have, divided by the weight of the smaller
//     submission. Rare fingerprints weigh more.
//
// docs/reference/similarity.md states precision and recall. A test of this package measures them.
package similarity
