// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
)

// EnsureNodeImage loads a node image of the store into Docker, unless Docker has it. It reports whether it did.
func EnsureNodeImage(ctx context.Context, store *images.Store, image images.Built,
	progress func(done, total int64),
) (loaded bool, err error) {
	output, err := docker.Output(ctx, "image", "inspect", "--format", "{{.Id}} {{len .RepoTags}}", image.Reference)
	old, names, _ := strings.Cut(strings.TrimSpace(output), " ")
	if err == nil && old == image.ID {
		return false, nil
	}
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var done int64
		err := store.Archive(ctx, &counter{to: write, report: func(n int64) {
			done += n
			progress(done, image.Size)
		}}, image)
		write.CloseWithError(err)
		written <- err
	}()
	err = docker.Run(ctx, read, io.Discard, "load", "--quiet")
	read.CloseWithError(errors.New("docker stopped reading"))
	if failed := <-written; failed != nil && err == nil {
		err = failed
	}
	if err != nil {
		return false, fmt.Errorf("giving Docker the node image %s: %w", image.Reference, err)
	}
	if names == "1" {
		// An image that lost its only name to this one would stay in Docker forever. A cluster that still runs it keeps it.
		var used *docker.Error
		if _, err := docker.Output(ctx, "image", "rm", old); err != nil && !errors.As(err, &used) {
			return true, err
		}
	}
	return true, nil
}

// Pull has Docker download a node image, unless Docker has it. It reports whether it did.
func Pull(ctx context.Context, reference string) (pulled bool, err error) {
	if _, err := docker.Output(ctx, "image", "inspect", reference); err == nil {
		return false, nil
	}
	if err := docker.Run(ctx, nil, io.Discard, "pull", "--quiet", reference); err != nil {
		return false, fmt.Errorf("downloading the node image: %w; without a registry, --air-gap builds it", err)
	}
	return true, nil
}

// Load loads images into all nodes that lack them, and returns how many images at least one node lacked. progress is
// called with the number of bytes that all nodes have received. The total is not known in advance, because images share
// layers.
func (c *Cluster) Load(
	ctx context.Context, store *images.Store, built []images.Built, progress func(done int64),
) (loaded int, err error) {
	nodes, err := docker.Nodes(ctx, c.Name)
	if err != nil {
		return 0, err
	}
	lacking := make([][]images.Built, len(nodes))
	missed := map[string]bool{}
	var done atomic.Int64
	if err := forEachNode(nodes, func(i int, node string) error {
		ids, err := docker.ImageIDs(ctx, node)
		if err != nil {
			return err
		}
		for _, image := range built {
			if ids[docker.Canonical(image.Reference)] != image.ID {
				lacking[i] = append(lacking[i], image)
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	for _, some := range lacking {
		for _, image := range some {
			missed[image.Reference] = true
		}
	}
	return len(missed), forEachNode(nodes, func(i int, node string) error {
		if len(lacking[i]) == 0 {
			return nil
		}
		return docker.Import(ctx, node, func(w io.Writer) error {
			return store.Archive(ctx, &counter{to: w, report: func(n int64) { progress(done.Add(n)) }}, lacking[i]...)
		})
	})
}

// forEachNode calls do for all nodes concurrently. A failure does not stop the other calls: they end soon, and need not
// be repeated the next time.
func forEachNode(nodes []string, do func(i int, node string) error) error {
	failed := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, node := range nodes {
		group.Go(func() { failed[i] = do(i, node) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// counter reports the length of each piece that was written.
type counter struct {
	to     io.Writer
	report func(n int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.report(int64(n))
	return n, err
}
