// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package checks groups the checks of each lab, the framework in which they are written, and the models that several
// labs share.
//
// The checks of a lab are the test files of the folder that has the lab's name. They see a submission only through the
// API server and the lab's services, and never import its code. The titles, points and hints of checks are in
// labs/labs.yaml, and scripts/grading runs them.
package checks
