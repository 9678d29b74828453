// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package plan is what the parts of a node must agree on: where things lie in it, and what each part is told by the one
// that starts it. It does nothing.
package plan
