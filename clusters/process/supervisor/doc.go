// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package supervisor implements the process between an owner and a program that must leave nothing behind. It starts
// the program, reports how it ended, and ends all processes that the program started. It does not know what the program
// is.
//
// The supervisor is the owner's own executable, started with another name, in one of two modes:
//
//   - Namespace: it is process 1 of a PID namespace. When it ends, the kernel ends every process of the namespace, and
//     no process can leave a PID namespace.
//   - Reaper: where the machine allows no namespaces, it is the subreaper of its descendants (PR_SET_CHILD_SUBREAPER):
//     whatever their parents do, they stay its descendants, and it kills them until none is left, however long that
//     takes. From Linux 6.12 on, Landlock lets one signal reach all of them and no other process, so that they can't
//     fork away from it. On earlier kernels, the supervisor looks for them in /proc, and stops and kills each with the
//     process group that it leads.
//
// The supervisor runs before main, in the initialisation of this package. A package that imports little is initialised
// early, so the supervisor of a big program does not wait until the rest of it is initialised, which takes 50 ms and
// more. That makes imports costly here: fmt would make the supervisor slower by half.
package supervisor
