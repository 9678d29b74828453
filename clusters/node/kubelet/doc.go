// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kubelet says how the node's kubelet is started. It is Kubernetes' own, a part of the control plane's program
// (clusters/controlplane), and is told only what it could not know: that it has no root, and where its runtime is.
package kubelet
