// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/node/podnet"
)

// A rule is a program for a small machine in the kernel, which has registers of four bytes each. An expression loads
// one from the packet, compares it, looks it up, or acts. If an expression doesn't match, the next rule begins.
const (
	register0 = unix.NFT_REG32_00 + iota // the first of a key, or an address
	register1                            // the second, or the port of the address
	register2
	register3 // a client's address
)

type expressions []expr.Any

// recreateTable recreates the table with everything but the Routes.
func (k *kernel) recreateTable() {
	k.conn.AddTable(k.table) // it must be there to be deleted
	k.conn.DelTable(k.table)
	k.conn.AddTable(k.table)
	for _, set := range []*nftables.Set{k.frontends, k.nodePorts, k.backends} {
		k.must(k.conn.AddSet(set, nil))
	}
	dispatch := k.conn.AddChain(&nftables.Chain{Table: k.table, Name: "dispatch"})
	k.rule(dispatch, load(destinationAddress, register0),
		load(protocol, register1), load(destinationPort, register2), goTo(k.frontends))
	node := k.set(nftables.TypeIPAddr, podnet.NodeAddress.AsSlice(), localhost.AsSlice())
	k.rule(dispatch, load(destinationAddress, register0), in(node),
		load(protocol, register0), load(destinationPort, register1), goTo(k.nodePorts))

	// The first packet of a connection meets the rules at its source: a Pod's packet when it arrives at the node, and the
	// node's own packet when it is sent.
	for name, hook := range map[string]*nftables.ChainHook{
		"from-pods": nftables.ChainHookPrerouting,
		"from-node": nftables.ChainHookOutput,
	} {
		k.rule(k.hook(name, nftables.ChainTypeNAT, hook, nftables.ChainPriorityNATDest),
			expressions{&expr.Verdict{Kind: expr.VerdictJump, Chain: dispatch.Name}})
	}

	// Answers must come back through the node, which has to change the address back. That would not happen when a Pod
	// connects to itself through a Service, or when the client is the node's 127.0.0.1, because each Pod has a 127.0.0.1
	// of its own. Such connections get the node's address as their source.
	back := k.hook("source-nat", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	k.rule(back, load(source, register0), load(destinationAddress, register1), in(k.backends), sourceNAT)
	k.rule(back, load(sourceNetwork8, register0), equals(localhost.AsSlice()[:1]),
		load(outInterface, register0), differs([]byte("lo\x00")), sourceNAT)

	// A packet for a Service that arrives here was not routed: there is no such Service, or it has no backend.
	refuse := k.hook("refuse", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	service := slices.Concat(load(destinationNetwork16, register0), equals(podnet.ServiceNetwork.Addr().AsSlice()[:2]))
	k.rule(refuse, service, load(protocol, register0), equals([]byte{unix.IPPROTO_TCP}),
		expressions{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	k.rule(refuse, service, expressions{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}})

	// 127.0.0.1 is for the node alone, as it would be without the changed kernel setting (see prepare).
	loopback := k.hook("loopback", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	k.rule(loopback, load(inInterface, register0), differs([]byte("lo\x00")),
		load(destinationNetwork8, register0), equals(localhost.AsSlice()[:1]),
		expressions{&expr.Verdict{Kind: expr.VerdictDrop}})
}

var localhost = netip.MustParseAddr("127.0.0.1")

// portUnreachable is ICMP's code for "port unreachable". Programs see "connection refused".
const portUnreachable = 3

func (k *kernel) hook(
	name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
) *nftables.Chain {
	return k.conn.AddChain(&nftables.Chain{Table: k.table, Name: name, Type: kind, Hooknum: hook, Priority: priority})
}

func (k *kernel) rule(chain *nftables.Chain, parts ...expressions) {
	k.conn.AddRule(&nftables.Rule{Table: k.table, Chain: chain, Exprs: slices.Concat(parts...)})
}

// set creates an anonymous set for one rule.
func (k *kernel) set(keyType nftables.SetDatatype, keys ...[]byte) *nftables.Set {
	set := &nftables.Set{Table: k.table, Anonymous: true, Constant: true, KeyType: keyType}
	var members []nftables.SetElement
	for _, key := range keys {
		members = append(members, nftables.SetElement{Key: key})
	}
	k.must(k.conn.AddSet(set, members))
	return set
}

// oneOf continues at random in one of the given number of cases. For three backends, three rules that continue in one
// of three, one of two, and one of one case give each backend the same share.
func oneOf(cases int) expressions {
	if cases == 1 {
		return nil
	}
	return expressions{
		&expr.Numgen{Register: register0, Modulus: uint32(cases), Type: unix.NFT_NG_RANDOM},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register0, Data: []byte{0, 0, 0, 0}},
	}
}

// choose puts a backend into the registers: its address into 0, its port into 1.
func choose(backend netip.AddrPort) expressions {
	return expressions{
		&expr.Immediate{Register: register0, Data: backend.Addr().AsSlice()},
		&expr.Immediate{Register: register1, Data: binary.BigEndian.AppendUint16(nil, backend.Port())},
	}
}

// These are the parts of a packet that rules load: bytes of the IP header, or of the header after it.
var (
	sourceNetwork8       = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 1}
	source               = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	destinationAddress   = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	destinationNetwork8  = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 1}
	destinationNetwork16 = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 2}
	// destinationPort is the same in TCP, UDP and SCTP.
	destinationPort = &expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	protocol        = &expr.Meta{Key: expr.MetaKeyL4PROTO}
	inInterface     = &expr.Meta{Key: expr.MetaKeyIIFNAME}
	outInterface    = &expr.Meta{Key: expr.MetaKeyOIFNAME}
)

// load loads a part of a packet into registers.
func load(what expr.Any, register uint32) expressions {
	switch what := what.(type) {
	case *expr.Payload:
		loaded := *what
		loaded.DestRegister = register
		return expressions{&loaded}
	case *expr.Meta:
		loaded := *what
		loaded.Register = register
		return expressions{&loaded}
	}
	panic("not an expression that reads a packet")
}

// equals continues if the loaded data is equal to data, and differs if it isn't.
func equals(data []byte) expressions {
	return expressions{&expr.Cmp{Op: expr.CmpOpEq, Register: register0, Data: data}}
}

func differs(data []byte) expressions {
	return expressions{&expr.Cmp{Op: expr.CmpOpNeq, Register: register0, Data: data}}
}

// in continues if the loaded data is in a set.
func in(set *nftables.Set) expressions {
	return expressions{&expr.Lookup{SourceRegister: register0, SetName: set.Name, SetID: set.ID}}
}

// goTo continues in the chain to which a map maps the loaded data.
func goTo(set *nftables.Set) expressions {
	return expressions{&expr.Lookup{SourceRegister: register0, IsDestRegSet: true, SetName: set.Name, SetID: set.ID}}
}

// client loads the client's address, for the lists of clients.
var client = load(source, register3)

// isOf continues if the client is in a list.
func isOf(clients *nftables.Set) expressions {
	return expressions{&expr.Lookup{SourceRegister: register3, SetName: clients.Name, SetID: clients.ID}}
}

// remember adds the client to a list for a time. If the client is already in the list, its time starts again.
func remember(clients *nftables.Set, time time.Duration) expressions {
	return expressions{&expr.Dynset{
		SrcRegKey: register3, SetName: clients.Name, SetID: clients.ID, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time,
	}}
}

// destinationNAT routes the connection to the Pod in the registers 0 and 1.
var destinationNAT = expressions{&expr.NAT{
	Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register0, RegProtoMin: register1, Specified: true,
}}

// sourceNAT makes the connection come from the node.
var sourceNAT = expressions{
	&expr.Immediate{Register: register0, Data: podnet.NodeAddress.AsSlice()},
	&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register0},
}

// frontendElement returns an entry of the maps that map to a Route's chain. All parts of a key begin at a register.
func frontendElement(frontend Frontend, route string) nftables.SetElement {
	key := []byte{protocolNumbers[frontend.Protocol], 0, 0, 0}
	key = append(binary.BigEndian.AppendUint16(key, frontend.Port), 0, 0)
	if frontend.Address.IsValid() {
		key = append(frontend.Address.AsSlice(), key...)
	}
	return nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: route}}
}

var protocolNumbers = map[corev1.Protocol]byte{
	corev1.ProtocolTCP: unix.IPPROTO_TCP, corev1.ProtocolUDP: unix.IPPROTO_UDP, corev1.ProtocolSCTP: unix.IPPROTO_SCTP,
}
