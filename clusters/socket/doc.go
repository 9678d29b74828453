// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package socket listens on and dials Unix sockets in folders of any depth. A system call takes a path of about a
// hundred bytes, but people have long user names, and checkouts in deep folders. The package does not know the
// protocols of its users.
package socket
