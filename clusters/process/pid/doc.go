// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package pid finds processes in /proc by their numbers, and signals them. A process may end at any time and another
// one get its number, so a signal takes three steps: a handle is opened (pidfd_open(2)), which never means another
// process; then /proc says whether the process with the number is meant; then the handle is signalled. If the number
// was another's when we looked, the handle's process is dead, and nobody gets the signal. The package does not decide
// who is meant.
//
// Package supervisor imports it, so it imports as little as that.
package pid
