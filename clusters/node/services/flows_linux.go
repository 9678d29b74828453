// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/node/podnet"
)

// forgetFlows makes the kernel forget routes of datagrams that no longer apply. A TCP connection ends, and the new
// rules route the next one. UDP has no connections. To the kernel, a client that keeps sending from one port (a DNS
// resolver) is one conversation, and its datagrams would be routed to a deleted Pod as long as it continues to send.
func forgetFlows(before, after Plan, changed []string) error {
	current := flows{}
	for _, name := range changed {
		for _, frontend := range before[name].Frontends {
			current.add(frontend, nil)
		}
	}
	for _, name := range changed {
		for _, frontend := range after[name].Frontends {
			current.add(frontend, after[name].Backends)
		}
	}
	if len(current) == 0 {
		return nil
	}
	if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, current); err != nil {
		return fmt.Errorf("deleting stale UDP flows from conntrack: %w", err)
	}
	return nil
}

// flows maps the address that datagrams are sent to to the backends that may receive them.
type flows map[netip.AddrPort][]netip.AddrPort

func (f flows) add(frontend Frontend, backends []netip.AddrPort) {
	if frontend.Protocol != corev1.ProtocolUDP {
		return
	}
	addresses := []netip.Addr{frontend.Address}
	if !frontend.Address.IsValid() {
		addresses = []netip.Addr{podnet.NodeAddress, localhost}
	}
	for _, address := range addresses {
		f[netip.AddrPortFrom(address, frontend.Port)] = backends
	}
}

// MatchConntrackFlow reports whether the kernel must forget a conversation, because the address that answers is not a
// backend. It may be the Service's own address, if the Service had no backend when the conversation began.
func (f flows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	sentTo, _ := netip.AddrFromSlice(flow.Forward.DstIP)
	answers, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	backends, ours := f[netip.AddrPortFrom(sentTo.Unmap(), flow.Forward.DstPort)]
	return ours && !slices.Contains(backends, netip.AddrPortFrom(answers.Unmap(), flow.Reverse.SrcPort))
}
