// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pidtest gives a process the number that a test chooses, as if the kernel had used the number again. It makes
// no namespace.
package pidtest
