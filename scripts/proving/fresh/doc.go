// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package fresh runs the README's first commands as an ordinary user with an empty home and empty caches, and verifies
// their results. Where possible it runs them in a Debian root that has only make, git and ca-certificates. On a
// developer's machine, a full module cache, an installed program or a variable can hide that a command does not work on
// the machine of a new user.
//
// Only Go itself comes from this machine, because its version is pinned. The gate runs only the first command, with
// this machine's module cache and build cache, so that it takes a minute.
package fresh
