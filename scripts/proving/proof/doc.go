// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package proof runs the named parts of the long proof whose inputs have changed since they were last proven, keeps a
// record of each part in the user's cache folder, and writes docs/proof.md from the records. It does not decide whether
// a change is sound. The gate does (package gate). Each part is one or more commands that a contributor can also run
// alone. See docs/decisions/0032-gate-and-proof.md.
package proof
