// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"log"
	"maps"
	"net/netip"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/services"
)

// network is the runtime's view of the network: addresses, and Services if there are any.
type network struct {
	pods     *podnet.Network
	services *services.Proxy
}

// Attach creates the network of a Pod.
func (n *network) Attach(id string) (*os.File, netip.Addr, error) {
	pod, err := n.pods.Attach(id)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	return pod.Namespace, pod.Address, nil
}

// Detach removes the network of a Pod.
func (n *network) Detach(id string) error { return n.pods.Detach(id) }

// Attached returns the IDs of the Pods that have a network.
func (n *network) Attached() []string { return slices.Collect(maps.Keys(n.pods.Pods())) }

// Publish gives a Pod ports of the node.
func (n *network) Publish(
	id string, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, mappings []*runtimeapi.PortMapping,
) {
	published := services.HostPorts{
		Owner: services.Owner{
			Kind: "Pod", NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: types.UID(pod.Uid),
		},
		Address: address,
	}
	for _, mapping := range mappings {
		if mapping.HostPort == 0 {
			continue
		}
		port := services.HostPort{
			Protocol:      corev1.Protocol(mapping.Protocol.String()),
			HostPort:      uint16(mapping.HostPort),
			ContainerPort: uint16(mapping.ContainerPort),
		}
		port.HostIP, _ = netip.ParseAddr(mapping.HostIp) // none: all addresses
		published.Ports = append(published.Ports, port)
	}
	if n.services != nil && len(published.Ports) > 0 {
		n.services.SetHostPorts(id, published)
	}
}

// Withdraw takes back the ports that Publish gave to a Pod.
func (n *network) Withdraw(id string) {
	if n.services != nil {
		n.services.ClearHostPorts(id)
	}
}

// Drained returns when no new connection can reach a Pod that is being deleted.
func (n *network) Drained(
	ctx context.Context, pod *runtimeapi.PodSandboxMetadata, address netip.Addr, namespace *os.File,
) error {
	if n.services == nil {
		return nil
	}
	err := n.services.Drained(ctx, services.Pod{
		Name:      types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		UID:       types.UID(pod.Uid),
		Address:   address,
		Namespace: namespace,
	})
	if err != nil {
		log.Printf("stopping a Pod that may still receive connections: %v", err)
	}
	return err
}
