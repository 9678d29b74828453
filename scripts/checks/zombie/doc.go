// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package zombie creates the scene of lab 03's second half in a cluster: an icecream that can't be deleted, because the
// controller of its finalizer is gone, and two others that only look similar. The command `lab zombie` and the checks
// create the same scene. The package judges what a student wrote about the scene, but not what a script did to it.
package zombie
