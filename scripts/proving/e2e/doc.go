// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package e2e tries everything that the course does on a kind cluster, from nothing to nothing: it makes a cluster,
// proves its network, grades every solution and a wrong submission of each lab there, invites students, tries as one of
// them what a student may and may not, revokes them, and deletes the cluster. It does so with the commands that people
// type, and removes what it made whatever happens.
package e2e
