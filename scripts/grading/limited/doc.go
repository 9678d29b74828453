// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package limited reads the files, answers and output of a submission up to a limit. It reads and copies the regular
// files of a folder, reads a server's answer, and keeps the beginning or the end of a program's output. A pipe, a
// device or a link to a target outside the folder can't hang the grader, and an endless file, answer or output can't
// fill its memory or its disk. The packages that use it choose the limits.
package limited
