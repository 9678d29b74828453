// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package submission handles what a student wrote: a Go module of kubebuilder's layout, of whatever year, inside this
// repository or outside it. It finds the program, builds it without downloading anything, generates its manifests from
// its markers, installs its API and its account into a cluster, and serves its webhooks there. It writes nothing into the
// submission's folder, and judges nothing.
package submission
