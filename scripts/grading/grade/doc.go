// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package grade grades a submission for a lab: it builds the submission, installs its API into a fresh cluster, runs
// it under an account with exactly the rights that its markers ask for, runs the checks, and returns a report. Every
// run returns a report. If a run ends early, the report contains the reason.
//
// It has no code for a particular lab: labs.yaml and scripts/checks define what is checked.
package grade
