// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

// Up starts the checkout's playground, with a node or without, unless it already runs that way, and writes its kubectl.
// started is true if it did not run before. Up first builds missing parts, and shows the progress on standard error. It
// removes registrations of aggregated API servers that a killed run has left.
func Up(ctx context.Context, repo *checkout.Checkout, node bool) (started bool, err error) {
	var parts embedded.NodeParts
	if node {
		parts, err = repo.EnsureNode(ctx)
	} else {
		err = repo.EnsureControlPlane(ctx)
	}
	if err != nil {
		return false, err
	}
	if err := WriteKubectl(repo); err != nil {
		return false, err
	}
	if node {
		started, err = repo.Playground().UpWithNode(ctx, repo.ControlPlane, parts)
	} else {
		started, err = repo.Playground().Up(ctx, repo.ControlPlane)
	}
	if err != nil {
		return started, err
	}
	return started, unregisterServers(ctx, repo.Playground())
}

// InstallAddons installs the add-ons with these names in the playground, and returns when they are usable. It prints
// what it waits for to out. It returns an error if the playground has no node, unless no add-on is named.
func InstallAddons(ctx context.Context, repo *checkout.Checkout, names []string, out io.Writer) error {
	if len(names) == 0 {
		return nil
	}
	status, err := repo.Playground().Status(ctx)
	if err != nil {
		return err
	}
	if !status.HasNode() {
		return fmt.Errorf("add-ons are Pods, and the playground has no node: %s", status.NoNode)
	}
	if err := repo.EnsureAddons(ctx, names); err != nil {
		return err
	}
	began := time.Now()
	if err := repo.Installer().Install(ctx, repo.Playground().Kubeconfig(), names, func(line string) {
		fmt.Fprintln(out, "  "+line)
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "Ready after %.1f s: %s.\n", time.Since(began).Seconds(), strings.Join(names, ", "))
	return nil
}
