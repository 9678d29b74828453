// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package socket listens and dials at Unix sockets, however deep the folder lies that they are in: a system call takes
// a name of about a hundred bytes, and people have long user names, and checkouts in deep folders. It does not know
// what is said there.
package socket
