// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package environment provides what the instructor's commands work on: a checkout, and a cluster by its name.
package environment

import (
	"context"
	"fmt"
	"os"
	"time"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
	"lva.io/operators/scripts/grading/report/terminal"
)

// Environment is a checkout, and a cluster by its name. Its steps are shown on standard error, since standard output is
// for programs.
type Environment struct {
	Root    string
	Cluster *kind.Cluster
	Store   *images.Store
	Steps   *steps.Steps
}

// Find returns the environment of the cluster with this name, which need not exist.
func Find(name string) (*Environment, error) {
	repo, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	cluster, err := kind.New(repo.Root, name)
	if err != nil {
		return nil, err
	}
	return &Environment{
		Root: repo.Root, Cluster: cluster,
		Steps: steps.New(os.Stderr, terminal.Detect(os.Stderr, os.Getenv)), Store: images.StoreOf(repo.Root),
	}, nil
}

// Lock ensures that no other command works on the cluster.
func (e *Environment) Lock(ctx context.Context) (unlock func(), err error) {
	return e.Cluster.Lock(ctx, func() {
		fmt.Fprintf(os.Stderr, "Waiting for another command that uses the cluster %s.\n", e.Cluster.Name)
	})
}

// Build ensures that the store has the images. Each image that it builds gets a line with its time and size.
func (e *Environment) Build(ctx context.Context, wanted []images.Image, report func(string)) ([]images.Built, error) {
	e.Store.Made = func(what string, took time.Duration, bytes int64) {
		e.Steps.Note(fmt.Sprintf("built %s in %.1f s, %s", what, took.Seconds(), Megabytes(bytes)))
	}
	return e.Store.Ensure(ctx, wanted, reporting(report))
}

// reporting turns the store's progress into words.
func reporting(report func(string)) images.Progress {
	return func(what string, done, total int64) {
		switch {
		case total > 0:
			report(fmt.Sprintf("%s: %d of %d", what, done, total))
		case done > 0:
			report(fmt.Sprintf("%s: %d", what, done))
		default:
			report(what)
		}
	}
}

// Megabytes formats a size, rounded to megabytes so that sizes of images are easy to compare.
func Megabytes(bytes int64) string { return fmt.Sprintf("%d MB", (bytes+500_000)/1_000_000) }
