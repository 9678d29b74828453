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
	// Builder is a command that builds an image when a Pod requires it. Its last argument is the image's name. Without a
	// Builder, only the images of the store are available.
	Builder []string

	targets []targets.Program
}

// ProgramsOf returns the node's programs of the checkout at root.
func ProgramsOf(root string) Programs {
	return Programs{
		Init:    targets.Init(root).Output,
		Agent:   targets.Agent(root).Output,
		Builder: []string{targets.ImageBuild(root).Output, root},
		targets: targets.Node(root),
	}
}

// Ensure builds the programs unless they exist and are up to date with their sources. It is for tests. Commands build
// the programs where the user sees the progress.
func (p Programs) Ensure(ctx context.Context) error {
	for _, target := range p.targets {
		if err := target.Ensure(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
