// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package process starts programs that never outlive the command that needed them.
//
// A Scope owns a folder and the processes started in it. Whatever ends the scope's owner (Close, Ctrl-C, a panic in a
// test, kill -9), the processes end and the folder is removed. Three mechanisms ensure that. Each handles what the one
// before it can't:
//
//   - Close ends every process group of the scope and removes the folder.
//   - A guard, a second process of the same program that holds the other end of a pipe, does the same when the pipe
//     closes because the owner died. It runs in a session of its own, so that a signal to the owner's terminal or group
//     does not kill it.
//   - Sweep, called when the next scope begins, removes what is left when owner and guard were both killed: a folder
//     whose lock no process holds is abandoned.
//
// Processes that leave their group (setsid) are found by the marker that every process of a scope has in its
// environment (on Linux, through /proc). A program that we don't trust may clear its environment, so it is started
// contained, below a supervisor. In a namespace, no process can escape from the supervisor. Without one, a program may
// kill its supervisor first, or fork and end faster than the supervisor finds it. From Linux 6.12 on it can't signal
// its supervisor, and one signal reaches all processes below the supervisor. Work that a program has a daemon do (at,
// docker, systemd-run --user) is not below its supervisor at all. Decision 6 (docs/decisions) has the details.
//
// The package does not know what the programs are. It does not build them (gobuild does) or read their output.
package process
