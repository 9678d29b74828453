// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package submission handles what a student wrote: a Go module of kubebuilder's layout, of whatever year, inside this
// repository or outside it. It finds the program, builds it without downloading anything, generates its manifests from
// its markers, and puts them together as its own deployment does. How that comes into a cluster is the stage's. It
// writes nothing into the submission's folder, and judges nothing.
package submission
