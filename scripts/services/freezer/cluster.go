// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import _ "embed"

// Names of the freezer in a cluster, as in Manifests.
const (
	// Namespace is the namespace of its Deployment and its Service, which are both called freezer.
	Namespace = "freezer"
	// ClusterURL is the URL by which Pods of the cluster reach it.
	ClusterURL = "http://freezer.freezer.svc"
	// Image is the image that its Pod runs.
	Image = "operator-labs/freezer:v1"
)

// Manifests are the objects that deploy the freezer into a cluster, in YAML: a Namespace, a Deployment and a Service.
// Its Pod runs Image, which the nodes must have.
//
//go:embed freezer.yaml
var Manifests []byte
