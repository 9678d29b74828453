// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package proof runs the README's first commands as an ordinary user with an empty home and an empty module cache, where
// possible in a Debian root that has make, git and ca-certificates and nothing else, and looks at what comes of them. A
// module cache that happens to be full, a program that happens to be installed or a variable that happens to be set can hide
// there that a command does not work on the machine of whoever tries it first.
//
// Only Go itself and its build cache are this machine's: the first because the version is pinned, the second so that CI
// compiles nothing twice. What is compiled does not depend on it.
package proof
