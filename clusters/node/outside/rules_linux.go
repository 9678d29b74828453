// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package outside

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/podnet"
)

// inside are the networks whose packets never leave the node.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), // "this network"
	podnet.ServiceNetwork, podnet.PodNetwork,
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("224.0.0.0/3"), // multicast, reserved and broadcast addresses
}

func isInside(address netip.Addr) bool {
	for _, network := range inside {
		if network.Contains(address) {
			return true
		}
	}
	return !address.Is4()
}

// mark is set on packets for which the agent has a socket, while they are on the node.
const mark = 0x1

// addRules redirects all packets to the outside to the agent's sockets:
//
//	table ip outside {
//	    set inside { type ipv4_addr; flags interval; elements = { 10.244.0.0/16, … } }
//	    chain redirect {
//	        type filter hook prerouting priority -90      # after Services have changed addresses
//	        ip daddr @inside return
//	        meta l4proto tcp tproxy to 10.244.0.1:38001 meta mark set 1 accept
//	        meta l4proto udp tproxy to 10.244.0.1:38002 meta mark set 1 accept
//	    }
//	    chain refuse {
//	        type filter hook input priority 0
//	        ip daddr @inside return
//	        meta mark 1 return
//	        reject with icmp admin-prohibited             # the node must not appear to be the whole world
//	    }
//	}
func addRules(tcp, udp uint16) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "outside"}
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
	set := &nftables.Set{Table: table, Name: "inside", KeyType: nftables.TypeIPAddr, Interval: true}
	if err := conn.AddSet(set, intervals(inside)); err != nil {
		return err
	}
	isInside := []expr.Any{
		&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4, DestRegister: 1},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
		&expr.Verdict{Kind: expr.VerdictReturn},
	}

	chain := conn.AddChain(&nftables.Chain{
		Table: table, Name: "redirect", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: new(*nftables.ChainPriorityNATDest + 10),
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: isInside})
	for _, to := range []struct {
		protocol byte
		port     uint16
	}{{unix.IPPROTO_TCP, tcp}, {unix.IPPROTO_UDP, udp}} {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{to.protocol}},
			&expr.Immediate{Register: 1, Data: podnet.NodeAddress.AsSlice()},
			&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, to.port)},
			// If no socket listens there, the rule ends here.
			&expr.TProxy{Family: unix.NFPROTO_IPV4, TableFamily: unix.NFPROTO_IPV4, RegAddr: 1, RegPort: 2},
			&expr.Immediate{Register: 1, Data: binary.NativeEndian.AppendUint32(nil, mark)},
			&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
	}

	refuse := conn.AddChain(&nftables.Chain{
		Table:    table,
		Name:     "refuse",
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookInput,
		Priority: nftables.ChainPriorityFilter,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: refuse, Exprs: isInside})
	conn.AddRule(&nftables.Rule{Table: table, Chain: refuse, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, mark)},
		&expr.Verdict{Kind: expr.VerdictReturn},
	}})
	conn.AddRule(&nftables.Rule{Table: table, Chain: refuse, Exprs: []expr.Any{
		&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: adminProhibited},
	}})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("updating the nftables rules: %w", err)
	}
	return addDefaultRoute()
}

// adminProhibited is ICMP's code for "communication administratively prohibited".
const adminProhibited = 13

// intervals returns networks in the form of a kernel set: the first address of each, and the first address after it.
func intervals(networks []netip.Prefix) (elements []nftables.SetElement) {
	for _, network := range networks {
		elements = append(elements, nftables.SetElement{Key: network.Masked().Addr().AsSlice()})
		last := network.Masked().Addr().As4()
		for bit := network.Bits(); bit < 32; bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		if end := netip.AddrFrom4(last).Next(); end.IsValid() {
			elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return elements
}

// addDefaultRoute makes all addresses without another route the node's own.
func addDefaultRoute() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	route := &netlink.Route{
		LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
		Dst: podnet.Prefix(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), Src: podnet.NodeAddress.AsSlice(),
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("adding the default route: %w", err)
	}
	return nil
}
