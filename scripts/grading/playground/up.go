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
func Up(ctx context.Context, here *checkout.Checkout, node bool) (started bool, err error) {
	var parts embedded.NodeParts
	if node {
		parts, err = here.EnsureNode(ctx)
	} else {
		err = here.EnsureControlPlane(ctx)
	}
	if err != nil {
		return false, err
	}
	if err := WriteKubectl(here); err != nil {
		return false, err
	}
	if node {
		started, err = here.Playground().UpWithNode(ctx, here.ControlPlane, parts)
	} else {
		started, err = here.Playground().Up(ctx, here.ControlPlane)
	}
	if err != nil {
		return started, err
	}
	return started, unregisterServers(ctx, here.Playground())
}

// InstallAddons installs the add-ons with these names in the playground, and returns when they are usable. It prints
// what it waits for to out. It returns an error if the playground has no node, unless no add-on is named.
func InstallAddons(ctx context.Context, here *checkout.Checkout, names []string, out io.Writer) error {
	if len(names) == 0 {
		return nil
	}
	status, err := here.Playground().Status(ctx)
	if err != nil {
		return err
	}
	if !status.HasNode() {
		return fmt.Errorf("add-ons are Pods, and the playground has no node: %s", status.NoNode)
	}
	if err := here.EnsureAddons(ctx, names); err != nil {
		return err
	}
	began := time.Now()
	if err := here.Installer().Install(ctx, here.Playground().Kubeconfig(), names, func(line string) {
		fmt.Fprintln(out, "  "+line)
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "Ready after %.1f s: %s.\n", time.Since(began).Seconds(), strings.Join(names, ", "))
	return nil
}
