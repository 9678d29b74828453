// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pid finds processes in /proc by their numbers, and signals them. A process may end at any time and another
// one get its number, so a signal takes three steps: a handle is opened (pidfd_open(2)), which from then on never means
// another process; then /proc says whether the process that has the number is meant; then the handle is signalled. If
// the number was given to another process before the handle was opened, /proc shows that one, and the caller does not
// signal it. If that happened later, the handle's process is dead, and nobody gets the signal. Where there are no
// handles (before Linux 5.3, or when no descriptor is left), the number itself is signalled, and another process that
// gets it between the last two steps gets the signal. The package does not decide who is meant.
//
// Package supervisor imports it, so it imports as little as that.
package pid
