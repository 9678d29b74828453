// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"

	"lva.io/operators/clusters/node/targets"
)

// Programs are the node's own programs, in a checkout of this repository.
type Programs struct {
	// Init and Agent are their files.
	Init, Agent string
	// Builder is a command that makes an image when a Pod wants it, whose name is its last argument. Without it there are
	// only those that the store has.
	Builder []string

	targets []targets.Program
}

// ProgramsOf are those of the checkout at root.
func ProgramsOf(root string) Programs {
	return Programs{
		Init: targets.Init(root).Output, Agent: targets.Agent(root).Output, Builder: []string{targets.ImageBuild(root).Output, root},
		targets: targets.Node(root),
	}
}

// Ensure builds them unless they are there and fit their sources. It is for tests: commands build them where one sees
// how far it is.
func (p Programs) Ensure(ctx context.Context) error {
	for _, target := range p.targets {
		if err := target.Ensure(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
