// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package existing works on a cluster that existed before us and that others use, too: the cluster of a context of a
// kubeconfig. It checks whether the context's account has the rights that we need, lets one run at a time work on the
// cluster, and removes the objects that carry our label. It leaves the objects of others alone. It starts no cluster,
// and installs nothing.
package existing
