// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package node

import "context"

// Start returns an error, because there is no node on this system.
func Start(context.Context, Options) (*Node, error) {
	return nil, &Unavailable{Reason: "only Linux has namespaces", Remedy: "use kind for labs that need Pods"}
}

// Probe returns an error, because there is no node on this system.
func Probe(context.Context, Programs) error {
	return &Unavailable{Reason: "only Linux has namespaces", Remedy: "use kind for labs that need Pods"}
}

// Remove does nothing, because there are no nodes.
func Remove(context.Context, Programs, string) error { return nil }

// LogTail returns nothing, because there are no nodes.
func (n *Node) LogTail() string { return "" }
