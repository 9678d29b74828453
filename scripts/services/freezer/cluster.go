// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import _ "embed"

// Names of the freezer in a cluster, as Manifests have them.
const (
	// Namespace is where its Deployment and its Service are, which are both called freezer.
	Namespace = "freezer"
	// ClusterURL is where Pods of the cluster find it.
	ClusterURL = "http://freezer.freezer.svc"
	// Image is what its Pod runs.
	Image = "operator-labs/freezer:v1"
)

// Manifests is what brings the freezer into a cluster, in YAML: a namespace, a Deployment and a Service. Its Pod runs
// Image, which the nodes must have.
//
//go:embed freezer.yaml
var Manifests []byte
