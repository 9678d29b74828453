// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package submission reads and builds a student's submission: a Go module of kubebuilder's layout, of any year, inside
// this repository or outside it. It finds the program, builds it without downloading anything, generates its manifests
// from its markers, and renders them as its own deployment does. Stages install the result in a cluster. The package
// writes nothing into the submission's folder, and does not judge the submission.
package submission
