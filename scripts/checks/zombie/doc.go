// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package zombie plants the scene of lab 03's second half in a cluster: an icecream that can't die, since the
// controller of its finalizer is gone, beside two that only look like it. The command `lab zombie` and the checks plant
// the same. It judges what a student wrote about the scene, and not what a script did to it.
package zombie
