// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// Starter returns a function that starts a cluster with a node for a run of a lab, for Start and NewPool. It installs
// the lab's add-ons, which must be built, as soon as the API server answers. The run can use them.
func Starter(
	repo *checkout.Checkout, lab *manifest.Lab,
) func(context.Context, func(string)) (*embedded.Cluster, error) {
	return func(ctx context.Context, progress func(string)) (*embedded.Cluster, error) {
		parts, err := repo.EnsureNode(ctx)
		if err != nil {
			return nil, err
		}
		return embedded.StartWithNode(ctx, repo.ControlPlane, parts, func(ctx context.Context, c *embedded.Cluster) error {
			return repo.Installer().Install(ctx, c.Kubeconfig, lab.Addons, progress)
		})
	}
}

// StarterForProcesses is Starter for a lab whose operator is a process, for StartForProcesses. Without add-ons, the run
// does not wait for the node, because the first checks only need objects.
func StarterForProcesses(
	repo *checkout.Checkout, lab *manifest.Lab,
) func(context.Context, func(string)) (*embedded.Cluster, error) {
	if len(lab.Addons) > 0 {
		return Starter(repo, lab)
	}
	return func(ctx context.Context, _ func(string)) (*embedded.Cluster, error) {
		parts, err := repo.EnsureNode(ctx)
		if err != nil {
			return nil, err
		}
		return embedded.StartServerWithNode(ctx, repo.ControlPlane, parts)
	}
}
