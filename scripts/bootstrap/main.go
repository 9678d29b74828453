// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command bootstrap builds the lab command, or the cluster command when it is named, with a bar that shows how far it is: on a
// fresh machine that takes a minute or two. It is what make runs first, so it imports next to nothing and is there within
// seconds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
)

func main() {
	process.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := "lab"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(ctx, name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// run builds a command of the checkout in whose root we are.
func run(ctx context.Context, name string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	target := gobuild.Target{
		Package: "./" + name, Module: filepath.Join(root, "scripts"), Output: filepath.Join(root, ".cache", "bin", name),
		Sources: []string{filepath.Join(root, "scripts"), filepath.Join(root, "clusters")},
	}
	if target.Fresh() {
		// make compares times, we compare contents: tell it that all is well.
		return touch(target.Output)
	}
	bar := progress.Start(os.Stderr, "build the "+name+" command")
	if err := target.Ensure(ctx, bar.Set); err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}

func touch(file string) error {
	now := time.Now()
	return os.Chtimes(file, now, now)
}
