// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"net/netip"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Network connects Pods.
type Network interface {
	// Attach creates the network of a sandbox. The namespace exists as long as its file is open or a process is in it.
	Attach(id string) (namespace *os.File, address netip.Addr, err error)
	// Detach removes the network of a sandbox. It is no error if there is none.
	Detach(id string) error
	// Attached returns the IDs of the sandboxes that have a network, including those of an earlier server.
	Attached() []string
	// Publish gives a sandbox ports of the node, and Withdraw takes them back.
	Publish(id string, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, ports []*runtimeapi.PortMapping)
	Withdraw(id string)
	// Drained returns when no new connection can reach a Pod that is being deleted.
	Drained(ctx context.Context, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, namespace *os.File) error
}
