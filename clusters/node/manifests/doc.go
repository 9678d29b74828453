// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package manifests applies the objects that every node runs from the start: DNS for the cluster's names, and storage
// for Pods that request it. It also forbids one thing that the node can't do. It writes objects to the API server and
// does not wait for them. Pods start when the node is ready for them.
//
// The manifests are those of kubeadm and kind, so that what you learn here is valid there. Comments in the YAML give
// the reasons for the differences.
package manifests
