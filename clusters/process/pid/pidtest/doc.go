// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pidtest starts a process with a number that a test chooses, as if the kernel had reused the number. It
// creates no namespace.
package pidtest
