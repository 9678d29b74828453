// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package supervisor is the process between an owner and a program that must leave nothing behind. It starts the
// program, passes on how it ended, and ends everything that the program started. It does not know what the program is.
//
// It is this same program, called by another name, in one of two modes:
//
//   - Namespace: it is process 1 of a PID namespace. When it ends, the kernel ends every process of the namespace, and
//     no process can leave a PID namespace.
//   - Reaper: where namespaces can't be had, it is the subreaper of its descendants (PR_SET_CHILD_SUBREAPER): whatever
//     their parents do, they stay its descendants, and it kills them until none is left, however long that takes. From
//     Linux 6.12 on, Landlock lets one signal reach all of them and nobody else, so that they can't fork away from it.
//     On earlier kernels, the supervisor looks for them in /proc, and stops and kills each with the process group that
//     it leads.
//
// The supervisor runs before main, in the initialisation of this package. A package that imports little is initialised
// early, so the supervisor of a big program does not wait until the rest of it is initialised, which takes 50 ms and
// more. So imports are costly here: fmt would make it slower by half.
package supervisor
