// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package docker reaches the nodes of a kind cluster through the docker command: it lists them, runs programs in them,
// reads their files, and puts images into them. It does not create or delete clusters (clusters/kind does). It links
// neither kind nor Docker's own libraries, so that the lab command, which uses it, builds fast.
package docker
