// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"io"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// Operator is an operator in a folder, which a person runs or deploys without a grade.
type Operator struct {
	Checkout *checkout.Checkout
	// Lab is the lab that it solves. Nil: it solves none, and gets no services and no node.
	Lab *manifest.Lab
	// Dir is the folder of its module, and Main the package of its program there. Default: where kubebuilder puts it.
	Dir, Main string
	// Fetch downloads the modules that the operator in a folder needs, as far as the person allows that. system is as in
	// submission.Builder.
	Fetch func(ctx context.Context, dir, system string) error
	// Out gets the output of the operator and of kubectl. Err gets messages for the person.
	Out, Err io.Writer
}
