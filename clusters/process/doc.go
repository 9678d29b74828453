// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package process starts programs that never outlive the command that needed them.
//
// A Scope owns a folder and the processes started in it. Whatever ends the scope's owner (Close, Ctrl-C, a panic in a
// test, kill -9), the processes and the folder go. Three things see to that, each for what the one before it can't:
//
//   - Close ends every process group of the scope and removes the folder.
//   - A guard, a second process of the same program that holds the other end of a pipe, does the same when the pipe
//     closes because the owner died. It runs in a session of its own, so that what kills the owner's terminal or group
//     does not kill it.
//   - Sweep, called when the next scope begins, removes what is left when owner and guard were both killed: a folder
//     whose lock nobody holds is abandoned.
//
// Processes that leave their group (setsid) are found by the marker that every process of a scope has in its
// environment (on Linux, through /proc). A program that we don't trust may clear its environment; it is started
// contained, below a supervisor. In a namespace, nothing gets away from that. Without one, a program may end its
// supervisor first, or fork and end faster than it is found; from Linux 6.12 on it can't signal its supervisor, and one
// signal reaches all that is below it. Work that a program has a daemon do (at, docker, systemd-run --user) is not
// below its supervisor at all. Decision 6 (docs/decisions) says more.
//
// The package knows nothing of what the programs are; it builds nothing (gobuild does) and reads no output.
package process
