// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package grade grades a submission for a lab: it builds it, installs its API into a fresh cluster, runs it under an
// account with exactly the rights that its markers ask for, lets the checks look at it, and reports. A report comes of
// every run: what ends a run early is its result.
//
// It knows no single lab: what to check comes from labs.yaml and scripts/checks.
package grade
