// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package limited takes what a submission brings, and no more of it than a limit allows: it reads regular files of a
// folder, copies them, reads what a server answers, and keeps the beginning of what a program prints. A pipe, a device
// or a link that leads out of the folder can't hang the grader, and an endless file, answer or output can't fill its
// memory or its disk. The limits themselves belong to the packages that use it.
package limited
