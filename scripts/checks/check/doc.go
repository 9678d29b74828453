// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package check is the framework for the checks of all labs. A check is an e2e-framework feature. This package runs the
// features of a lab in the order of labs.yaml, skips those that need a failed check, and reports each to the grader. It
// gives them the two things that black-box checks need: waits that end early, and evidence from the audit log.
//
// It knows no lab and no kind of object. Packages for the kinds that several labs share are next to it (icecream).
package check
