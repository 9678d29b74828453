// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package e2e tests the whole course on a kind cluster, from its creation to its deletion: it creates a cluster, tests
// its network, grades every solution and an incorrect submission of each lab there, invites students, tests the rights
// of one of them, revokes their access, and deletes the cluster. It runs the commands that users type, and always
// removes what it created.
package e2e
