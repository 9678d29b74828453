// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command imagebuild builds an image of the catalogue, in the image store of a checkout. It runs on the machine when a
// Pod of the node requires an image that the store does not have, because the node has neither a compiler nor the
// sources.
//
//	imagebuild ROOT REFERENCE
//
// It prints the lines that package builds reads: the progress of the build, and then its result.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/builds"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// If the Pod is deleted during the build, no process reads the output any more. The build continues, so that the next
	// Pod finds the image.
	signal.Ignore(syscall.SIGPIPE)
	var err error
	if len(os.Args) == 3 {
		err = build(ctx, os.Args[1], os.Args[2])
	} else {
		err = fmt.Errorf("usage: imagebuild CHECKOUT IMAGE")
	}
	if _, printErr := os.Stdout.Write(builds.Answer(err)); printErr != nil {
		os.Exit(1) //nolint:gocritic // no client waits any more, and nothing else is deferred
	}
}

// build builds the catalogue's image with this name. The reference may be another spelling of the name.
func build(ctx context.Context, root, reference string) error {
	wanted, err := named.Complete(reference)
	if err != nil {
		return err
	}
	catalogue, err := images.Load()
	if err != nil {
		return err
	}
	for _, image := range catalogue.Images {
		if name, err := named.Complete(image.Reference); err != nil || name != wanted {
			continue
		}
		m := meter{report: func(message string) { _, _ = os.Stdout.Write(builds.Progress(message)) }}
		_, err := images.StoreOf(root).Ensure(ctx, []images.Image{image}, m.note)
		return err
	}
	return named.ErrUnknown
}
