// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package nodetest runs a package's tests in a network namespace of their own, so that they use a real kernel without
// changing the machine. It tests nothing itself.
//
// The tests run as the user who started them. Root's tests run once more as an ordinary user, in a user namespace.
package nodetest
