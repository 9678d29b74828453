// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package plan defines what the parts of a node must agree on: paths and addresses in the node, and the parameters that
// each part gets from the one that starts it. It has no code that does anything.
package plan
