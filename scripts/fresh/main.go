// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command fresh proves that the README's first commands work on a machine that has nothing but Go, make and git. It is the
// first step of CI, so it imports next to nothing: what it needs itself must not be in a cache before the proof begins.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/fresh/proof"
)

func main() {
	process.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "fresh: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run proves it of the checkout in whose root we are.
func run(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	return proof.Run(ctx, root, os.Stdout)
}
