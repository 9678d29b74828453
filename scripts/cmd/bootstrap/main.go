// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command bootstrap builds the lab command, or the cluster command if that is its first argument. Then it builds what
// the make goals in its other arguments need, which may include make's variables: bootstrap lab up ADDONS=cert-manager.
// On a fresh machine that takes minutes, so it shows its progress. It is the first program that make runs, so it
// imports few packages and compiles within seconds.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/programs"
)

func main() {
	process.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// run builds a command of the checkout in the working folder, and the programs that the goals need.
func run(ctx context.Context, args []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	command := programs.Lab(root)
	forInstructors := len(args) > 0 && args[0] == "cluster"
	if forInstructors {
		command = programs.Cluster(root)
	}
	if command.Fresh() {
		// make compares times, and we compare contents. A new time shows make that the command is current. The command builds
		// everything else.
		return touch(command.Output)
	}
	if err := programs.CheckLocation(root); err != nil {
		return err
	}
	if !forInstructors { // clusters of instructors run in Docker, without a Kubernetes that is compiled here
		if err := announce(os.Stderr, root); err != nil {
			return err
		}
	}
	all := []programs.Program{command}
	var goals []string
	variables := map[string]string{}
	for _, arg := range args[min(1, len(args)):] {
		if name, value, is := strings.Cut(arg, "="); is {
			variables[name] = value
		} else {
			goals = append(goals, arg)
		}
	}
	for _, goal := range goals {
		needed, err := programs.For(root, goal, variables)
		if err != nil {
			return err
		}
		all = append(all, needed...)
	}
	return programs.Ensure(ctx, root, os.Stderr, all...)
}

// announce prints how much disk space the first build takes. It returns an error if there is clearly less, because a
// disk that is full after ten minutes stops other programs, too.
func announce(out io.Writer, root string) error {
	build, needed, err := programs.PlanFirstBuild(root)
	switch {
	case err != nil:
		return err
	case needed && build.Impossible():
		return fmt.Errorf("%s: free some space, or clone onto another disk", build)
	case needed:
		text := build.String()
		fmt.Fprintf(out, "%s.\n", strings.ToUpper(text[:1])+text[1:])
	}
	return nil
}

func touch(file string) error {
	now := time.Now()
	return os.Chtimes(file, now, now)
}
