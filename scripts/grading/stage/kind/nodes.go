// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
)

// goneTimeout is how long a kubelet may take to end a Pod whose container was killed.
const goneTimeout = 20 * time.Second

// Nodes are the nodes of a kind cluster. It implements scripts/grading/stage/pod.Nodes.
type Nodes struct {
	// Cluster is its name.
	Cluster string
	// Store builds the image of the operator.
	Store *images.Store
}

// Reach opens a connection from each node.
func (n Nodes) Reach(ctx context.Context, address string) error {
	nodes, err := n.workers(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := docker.Exec(ctx, node, nil, io.Discard,
			"timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port); err != nil {
			return fmt.Errorf("the node %s does not reach this machine at %s, "+
				"where the proxy of the API server listens: is there a firewall? "+
				"Allow connections from docker's network %q, or run the operator on this machine, with --process: %w",
				node, address, docker.Network, err)
		}
	}
	return nil
}

// workers returns the nodes on which Pods run.
func (n Nodes) workers(ctx context.Context) ([]string, error) {
	nodes, err := docker.Containers(ctx, n.Cluster)
	if err != nil {
		return nil, err
	}
	workers := slices.DeleteFunc(slices.Clone(nodes), func(node docker.Node) bool { return node.ControlPlane })
	if len(workers) == 0 {
		workers = nodes
	}
	var names []string
	for _, node := range workers {
		names = append(names, node.Name)
	}
	if len(names) == 0 {
		return nil, docker.ErrNoCluster
	}
	return names, nil
}

// Load builds an image of a program and loads it into the nodes that do not have it. The nodes keep the image, but the
// store does not.
func (n Nodes) Load(ctx context.Context, reference, program string) error {
	built, release, err := n.Store.BuildTemporary(ctx, reference, program)
	if err != nil {
		return fmt.Errorf("building the operator's image: %w", err)
	}
	return errors.Join(n.LoadImages(ctx, built), release())
}

// LoadImages loads images into the nodes that do not have them.
func (n Nodes) LoadImages(ctx context.Context, built ...images.Built) error {
	nodes, err := n.workers(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error {
			have, err := docker.ImageIDs(ctx, node)
			if err != nil {
				return err
			}
			lacking := slices.DeleteFunc(slices.Clone(built), func(b images.Built) bool {
				return have[docker.Canonical(b.Reference)] == b.ID
			})
			if len(lacking) == 0 {
				return nil
			}
			return docker.Import(ctx, node, func(w io.Writer) error { return n.Store.Archive(ctx, w, lacking...) })
		})
	}
	return group.Wait()
}

// gone is a script that waits until no sandbox with a Pod's uid is ready in its node.
const gone = `while [ -n "$(crictl pods --quiet --state ready --label "io.kubernetes.pod.uid=$0")" ]; do sleep 0.05; done`

// Kill kills the container's processes.
func (n Nodes) Kill(ctx context.Context, node, container string) error {
	err := docker.Exec(ctx, node, nil, io.Discard,
		"ctr", "--namespace=k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
	if err != nil && endedBefore.MatchString(err.Error()) {
		return nil
	}
	return err
}

// AwaitGone waits until the node's container runtime has ended the Pod.
func (n Nodes) AwaitGone(ctx context.Context, node, uid string) error {
	err := docker.Exec(ctx, node, nil, io.Discard,
		"timeout", fmt.Sprintf("%.0f", goneTimeout.Seconds()), "bash", "-c", gone, uid)
	if err != nil {
		return fmt.Errorf("waiting until the kubelet has ended the operator's Pod: %w", err)
	}
	return nil
}

// endedBefore matches containerd's error about a container that can't be killed because it has already ended.
var endedBefore = regexp.MustCompile(`not found|already finished`)
