// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pid finds processes in /proc by their numbers, and signals them. A process may end at any time, and another
// one may get its number. So a signal takes three steps. First the caller opens a handle (pidfd_open(2)), which never
// refers to another process. Then it checks in /proc that the process that has the number is the right one. Then it
// signals the handle. If another process got the number before the handle was opened, /proc shows that process, and the
// caller does not signal it. If that happened later, the handle's process is dead, and no process gets the signal.
// Where there are no handles (before Linux 5.3, or when no descriptor is left), the number itself is signalled. Then
// another process that gets the number between the last two steps gets the signal. The package does not decide which
// process is the right one.
//
// Package supervisor imports it, so it imports as little as that.
package pid
