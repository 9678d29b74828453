// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package manifests is what runs on a node from the beginning: DNS for the cluster's names, and storage for those who
// ask for it. One thing that the node can't do is forbidden. It writes objects into the API server, and waits for
// nothing: Pods start when the node is ready for them.
//
// They are kubeadm's and kind's, so that what is learned here holds there. Where they differ, the YAML says why.
package manifests
