// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package node

import "context"

// Start says that there is no node here.
func Start(context.Context, Options) (*Node, error) {
	return nil, &Unavailable{Reason: "only Linux has namespaces", Remedy: "use kind for labs that need Pods"}
}

// Probe says that there is no node here.
func Probe(context.Context, Programs) error {
	return &Unavailable{Reason: "only Linux has namespaces", Remedy: "use kind for labs that need Pods"}
}

// Remove has nothing to remove.
func Remove(context.Context, Programs, string) error { return nil }

// LastWords are none.
func (n *Node) LastWords() string { return "" }
