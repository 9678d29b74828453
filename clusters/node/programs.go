// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"
	"path/filepath"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/node/targets"
)

// Programs are the node's own programs, in a checkout of this repository.
type Programs struct {
	// Init and Agent are their files.
	Init, Agent string
	// Builder is a command that makes an image when a Pod wants it, whose name is its last argument. Without it there are only those
	// that the store has.
	Builder []string

	targets []gobuild.Target
}

// ProgramsOf are those of the checkout at root.
func ProgramsOf(root string) Programs {
	file := func(name string) string { return filepath.Join(root, ".cache", "node", name) }
	return Programs{
		Init: file("init"), Agent: file("agent"), Builder: []string{file("imagebuild"), root}, targets: targets.Node(root),
	}
}

// Ensure builds them unless they are there and fit their sources. It is for tests: commands build them where one sees how far it is.
func (p Programs) Ensure(ctx context.Context) error {
	for _, target := range p.targets {
		if err := target.Ensure(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
