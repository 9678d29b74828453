// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package check is what the checks of all labs are written with. A check is an e2e-framework feature; this package runs
// the features of a lab in the order of labs.yaml, skips those whose needs failed, tells the grader of each, and gives
// them the two things that black-box checks need: waiting that ends early, and evidence from the audit log.
//
// It knows no lab and no kind of object; those that several labs share are beside it (icecream).
package check
