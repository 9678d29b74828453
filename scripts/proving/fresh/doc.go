// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package fresh runs the README's first commands as an ordinary user with an empty home and empty caches, where
// possible in a Debian root that has make, git and ca-certificates and nothing else, and looks at what comes of them. A
// module cache that happens to be full, a program that happens to be installed or a variable that happens to be set can
// hide that a command does not work on the machine of a new user.
//
// Only Go itself is this machine's, because its version is pinned. The gate tries the first command alone, with this
// machine's module cache and build cache, so that it takes a minute.
package fresh
