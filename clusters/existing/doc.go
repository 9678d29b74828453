// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package existing is a cluster that was there before us and that others use, too: what a context of a kubeconfig leads
// to. It says whether the cluster can be worked on, lets one run at a time work there, and removes what carries our
// label. What does not, it never touches. It starts no cluster, and installs nothing.
package existing
