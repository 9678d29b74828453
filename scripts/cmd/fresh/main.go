// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command fresh proves that the README's first commands work on a machine that has only Go, make and git. It is the
// first step of CI, so it imports few packages: its own dependencies must not be in a cache before the proof begins.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/proving/fresh"
)

func main() {
	process.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	warm := flag.Bool("warm", false,
		"use this machine's module cache and build cache, and try only the first command (default: both are empty)")
	airGap := flag.Bool("air-gap", false,
		"as --warm, where nothing can be downloaded and, in a Debian root, no network is reached")
	programs := flag.String("programs", "",
		"an archive of `lab programs save`: try its prebuilt programs, by HTTP and with empty caches")
	flag.Parse()
	if err := run(ctx, fresh.Options{Warm: *warm, AirGap: *airGap, Programs: *programs}); err != nil {
		fmt.Fprintf(os.Stderr, "fresh: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run runs the proof on the checkout in the working folder.
func run(ctx context.Context, options fresh.Options) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	return fresh.Run(ctx, root, options, os.Stdout)
}
