// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kubelet defines the arguments and the configuration of the node's kubelet. It does not start it. The kubelet
// is Kubernetes' own, a part of the control plane's program (clusters/controlplane). Only settings whose defaults don't
// fit are changed: the kubelet does not run as root, and needs the address of its runtime.
package kubelet
