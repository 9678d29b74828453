// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package nodetest runs a package's tests in a network namespace of their own, so that they meet a kernel and not a
// fake of it, and change nothing of the machine. It tests nothing itself.
//
// They run as whoever started them. Root's run once more as an ordinary user, who gets there by a user namespace.
package nodetest
