// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"io"

	"lva.io/operators/clusters/docker"
)

// AuditLog is the audit log of the API server in a node of a kind cluster.
type AuditLog struct {
	// Node is the container of the control plane.
	Node string
}

// Follow copies the log from its beginning until the context ends.
func (l AuditLog) Follow(ctx context.Context, to io.Writer) error {
	return docker.Follow(ctx, l.Node, docker.AuditLog, to)
}

// String returns the location of the log.
func (l AuditLog) String() string { return docker.AuditLog + " in the node " + l.Node }
