// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"lva.io/operators/clusters/docker"
)

const (
	// eachNodeLab is the lab whose operator is a DaemonSet. Grading runs this operator as a process, so its manifests are
	// tested here.
	eachNodeLab = "10"
	// eachNodeImage is its image, and eachNodeFolder the folder of a node in which it keeps its file.
	eachNodeImage  = "operator-labs/authorizedkeys:e2e"
	eachNodeFolder = "/etc/ssh/nodes"
	// eachNodePatience is the time limit for the DaemonSet to run on each node, and then for a line to appear or
	// disappear.
	eachNodePatience = time.Minute
)

// daemonSet deploys the operator that keeps a file on each node, as a user does, and checks the files on the nodes.
func (r *runner) daemonSet(ctx context.Context) (err error) {
	lab, err := r.Labs.Lab(eachNodeLab)
	if err != nil {
		return err
	}
	dir, on := r.SolutionDir(lab), "kind:"+r.Name
	if err := r.EnsureControlPlane(ctx); err != nil { // kubectl is part of it
		return err
	}
	kubectl := func(args ...string) error {
		// `lab kubectl` would talk to the playground.
		return r.command(ctx, r.ControlPlane.Path,
			append([]string{"kubectl", "--kubeconfig=" + docker.Kubeconfig(r.Root, r.Name)}, args...)...)
	}
	if err := r.command(ctx, r.Lab, "image", "load", eachNodeImage, "--dir", dir, "--cluster", on); err != nil {
		return err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, r.command(ctx, r.Lab, "undeploy", "--dir", dir, "--cluster", on))
		nodes, nodesErr := docker.Nodes(ctx, r.Name)
		err = errors.Join(err, nodesErr)
		for _, node := range nodes {
			err = errors.Join(err, docker.Exec(ctx, node, nil, r.Out, "rm", "-rf", eachNodeFolder))
		}
	}()
	if err := r.command(ctx, r.Lab, "deploy", eachNodeImage, "--dir", dir, "--cluster", on); err != nil {
		return err
	}
	patience := "--timeout=" + eachNodePatience.String()
	if err := kubectl("--namespace=authorizedkeys-system",
		"rollout", "status", "daemonset,deployment", patience); err != nil {
		return err
	}
	sample := filepath.Join(dir, "config", "samples", "node_v1alpha1_authorizedkey.yaml")
	if err := kubectl("create", "--filename="+sample,
		"--as=admin", "--as-group=system:masters", "--as-group=key-admins"); err != nil {
		return err
	}
	if err := r.onNodes(ctx, "644 ", " authorizedkey:ada\n"); err != nil {
		return fmt.Errorf("an AuthorizedKey was created: %w", err)
	}
	r.println("the file of each node that has a Pod has the line, and mode 0644")
	// The nodes' accounts may not write the status. The Deployment does.
	if err := kubectl("wait", "authorizedkey/ada", "--for=condition=Accepted", patience); err != nil {
		return err
	}
	if err := kubectl("delete", "authorizedkeys", "--all"); err != nil {
		return err
	}
	if err := r.onNodes(ctx, "644 0\n", ""); err != nil {
		return fmt.Errorf("all AuthorizedKeys were deleted: %w", err)
	}
	r.println("the line is gone from each of them")
	return nil
}

// onNodes waits until at least one node has the file, and on each such node its description has this beginning and end.
// The description consists of the mode, the size and the content.
func (r *runner) onNodes(ctx context.Context, begins, ends string) error {
	nodes, err := docker.Nodes(ctx, r.Name)
	if err != nil {
		return err
	}
	return poll(ctx, eachNodePatience, func(ctx context.Context) error {
		files := 0
		for _, node := range nodes {
			var output strings.Builder
			const script = `test ! -e "$1" || { stat -c '%a %s' "$1/authorized_keys" && cat "$1/authorized_keys"; }`
			if err := docker.Exec(ctx, node, nil, &output, "sh", "-c", script, "look", eachNodeFolder); err != nil {
				return err
			}
			if output.Len() == 0 {
				continue // no Pod of it runs on this node
			}
			files++
			if !strings.HasPrefix(output.String(), begins) || !strings.HasSuffix(output.String(), ends) {
				return fmt.Errorf("the file of the node %s is (mode, size, content) %q", node, output.String())
			}
		}
		if files == 0 {
			return errors.New("no node has the file")
		}
		return nil
	})
}
