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
	// Attach makes the network of a sandbox. The namespace lives as long as its file is open or a process is in it.
	Attach(id string) (namespace *os.File, address netip.Addr, err error)
	// Detach removes it. One that is not there is no error.
	Detach(id string) error
	// Attached are the sandboxes that have one, by id: also those of an earlier server.
	Attached() []string
	// Publish gives a sandbox ports of the node, and Withdraw takes them back.
	Publish(id string, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, ports []*runtimeapi.PortMapping)
	Withdraw(id string)
	// Drained returns when no new connection comes to a Pod that is being deleted.
	Drained(ctx context.Context, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, namespace *os.File) error
}
