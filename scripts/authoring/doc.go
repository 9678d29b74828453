// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package authoring groups the tools for authors of labs, checks, mutants and pages.
//
// The tools generate skeletons, clients, tables and slides, certify the mutants of each lab, and verify the
// repository's files. The code that lectures show is here as well. Two packages work on a student's own project:
// scaffold creates it, and testgrade grades its tests. The gate and the proof, which run these tools, are in
// scripts/proving.
package authoring
