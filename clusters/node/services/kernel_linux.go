// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"

	"github.com/google/nftables"
	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/podnet"
)

// kernel manages the table with the rules of this package in the kernel:
//
//	table ip services {
//	    map frontends { type ipv4_addr . inet_proto . inet_service : verdict
//	        elements = { 10.96.0.7 . tcp . 80 : goto default/web/TCP/80 } }
//	    map node-ports { type inet_proto . inet_service : verdict
//	        elements = { tcp . 30080 : goto default/web/TCP/80/external } }
//	    chain default/web/TCP/80 {
//	        numgen random mod 3 == 0 dnat to 10.244.0.5:8080
//	        numgen random mod 2 == 0 dnat to 10.244.0.6:8080
//	        dnat to 10.244.0.7:8080
//	    }
//	    …
//	}
//
// However many Services there are, a packet costs one look-up in a hash table. Only the first packet of a connection
// costs that, because the kernel treats the others as it has treated the first.
type kernel struct {
	conn  *nftables.Conn
	table *nftables.Table
	// frontends and nodePorts map to the chains of Routes. Each chain has the name of its Route.
	frontends, nodePorts *nftables.Set
	// backends has all Pods that are behind a Service.
	backends *nftables.Set
	// applied is the plan that the kernel has. It is nil if that is unknown.
	applied Plan
}

// batchSize is the number of messages in a transaction, unless one Route alone has more. The kernel answers each
// message, and the answers to more than 500 don't fit into the buffer that an ordinary user may have.
const batchSize = 200

// messages returns how many messages a change from one Route to another takes at most, besides the elements of sets.
func messages(old, route Route) int { return 3 + len(old.Backends) + 3*len(route.Backends) }

func openKernel() (*kernel, error) {
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "services"}
	service := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	k := &kernel{
		table: table,
		frontends: &nftables.Set{
			Table: table, Name: "frontends", IsMap: true, Concatenation: true, DataType: nftables.TypeVerdict,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
		},
		nodePorts: &nftables.Set{
			Table: table, Name: "node-ports", IsMap: true, Concatenation: true, DataType: nftables.TypeVerdict, KeyType: service,
		},
		backends: &nftables.Set{
			Table: table, Name: "backends", Concatenation: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr),
		},
	}
	if err := k.prepare(); err != nil {
		return nil, err
	}
	return k, k.connect()
}

// connect opens a socket for the kernel's rules, which stays open. Closing one would wait until the changes made
// through it are in effect on all processors, which takes ten times as long as the change.
func (k *kernel) connect() (err error) {
	// Request a large buffer. The kernel reduces it to what this user may have.
	buffer := nftables.WithSockOptions(func(conn *mdnetlink.Conn) error { return conn.SetReadBuffer(1 << 20) })
	if k.conn, err = nftables.New(nftables.AsLasting(), buffer); err != nil {
		return fmt.Errorf("connecting to nftables: %w", err)
	}
	return nil
}

func (k *kernel) close() error { return k.conn.CloseLasting() }

// prepare configures the kernel settings that the rules depend on.
func (k *kernel) prepare() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	// A program on the node that connects to a Service needs a route before the first rule sees its packet. Packets that
	// no rule routes to a Pod arrive at the node itself by this route, and the chain "refuse" rejects them.
	route := &netlink.Route{
		LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
		Dst: podnet.Prefix(podnet.ServiceNetwork), Src: podnet.NodeAddress.AsSlice(),
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("adding the route to the Service network: %w", err)
	}
	// A packet from 127.0.0.1 to a NodePort may leave through another interface than lo. The chain "loopback" keeps other
	// packets from coming in through it.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0); err != nil {
		return fmt.Errorf("enabling NodePorts on 127.0.0.1: %w", err)
	}
	// The kernel remembers a connection for two minutes after its end, in case a packet is still on its way through the
	// Internet. Here no packet is, and a load test would fill the table. If the kernel doesn't allow this setting, it
	// remembers connections for longer.
	_ = os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", []byte("1"), 0)
	return nil
}

// apply updates the kernel to match the plan. Each Route changes as a whole, so that no packet sees half of it. After
// an error the kernel's state is unknown, and the next call writes everything.
func (k *kernel) apply(plan Plan) (err error) {
	before := k.applied
	k.applied = nil
	defer func() {
		if err != nil { // answers to the failed transaction may still arrive
			err = errors.Join(err, k.close(), k.connect())
		}
	}()
	if before == nil {
		// The table is recreated in one transaction with the first Routes, so that the rules of an earlier agent apply until
		// then.
		k.recreateTable()
		before = Plan{}
	}
	var changed []string
	for name := range merged(before, plan) {
		if !reflect.DeepEqual(before[name], plan[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if err := k.change(before, plan, changed); err != nil {
		return err
	}
	if err := forgetFlows(before, plan, changed); err != nil {
		return err
	}
	k.applied = maps.Clone(plan)
	return nil
}

func merged(a, b Plan) Plan {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func (k *kernel) change(before, after Plan, changed []string) error {
	old, current := before.elements(), after.elements()
	// References to a chain must be removed before the chain, and an element before its replacement is added.
	if err := k.remove(subtract(old, current)); err != nil {
		return err
	}
	for part := range chunks(before, after, changed) {
		added := Plan{}
		for _, name := range part {
			if route, ok := after[name]; ok {
				added[name] = route
				k.addRoute(before[name], route)
			}
		}
		if err := k.add(subtract(added.elements(), old)); err != nil {
			return err
		}
		for _, name := range part {
			if _, ok := after[name]; !ok {
				k.removeRoute(before[name])
			}
		}
		if err := k.conn.Flush(); err != nil {
			return fmt.Errorf("updating the nftables rules: %w", err)
		}
	}
	// If there are no changes, the table may still have to be created.
	if err := k.conn.Flush(); err != nil {
		return fmt.Errorf("updating the nftables rules: %w", err)
	}
	return nil
}

// chunks splits the changed Routes into transactions.
func chunks(before, after Plan, changed []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(changed) > 0 {
			end, size := 0, 0
			for end < len(changed) && (end == 0 || size < batchSize) {
				size += messages(before[changed[end]], after[changed[end]])
				end++
			}
			if !yield(changed[:end]) {
				return
			}
			changed = changed[end:]
		}
	}
}

// elements has the elements of the table's sets for a plan.
type elements struct {
	frontends map[Frontend]string // the names of Routes
	backends  map[netip.Addr]bool
}

func (p Plan) elements() elements {
	e := elements{map[Frontend]string{}, map[netip.Addr]bool{}}
	for name, route := range p {
		for _, frontend := range route.Frontends {
			e.frontends[frontend] = name
		}
		for _, backend := range route.Backends {
			e.backends[backend.Addr()] = true
		}
	}
	return e
}

// subtract returns the elements that are in a and not in b.
func subtract(a, b elements) elements {
	e := elements{maps.Clone(a.frontends), maps.Clone(a.backends)}
	maps.DeleteFunc(e.frontends, func(frontend Frontend, name string) bool { return b.frontends[frontend] == name })
	maps.DeleteFunc(e.backends, func(address netip.Addr, _ bool) bool { return b.backends[address] })
	return e
}

func (k *kernel) add(e elements) error    { return k.each(e, k.conn.SetAddElements) }
func (k *kernel) remove(e elements) error { return k.each(e, k.conn.SetDeleteElements) }

// each calls do with the elements of each set, as many at a time as a message can hold.
func (k *kernel) each(e elements, do func(*nftables.Set, []nftables.SetElement) error) error {
	lists := map[*nftables.Set][]nftables.SetElement{}
	for frontend, name := range e.frontends {
		set, element := k.frontends, frontendElement(frontend, name)
		if !frontend.Address.IsValid() {
			set = k.nodePorts
		}
		lists[set] = append(lists[set], element)
	}
	for address := range e.backends {
		lists[k.backends] = append(lists[k.backends],
			nftables.SetElement{Key: slices.Concat(address.AsSlice(), address.AsSlice())})
	}
	for set, list := range lists {
		for part := range slices.Chunk(list, 200) {
			if err := do(set, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRoute creates a Route's chain, or replaces its rules.
func (k *kernel) addRoute(old, route Route) {
	chain := k.conn.AddChain(&nftables.Chain{Table: k.table, Name: route.Name})
	k.conn.FlushChain(chain)
	if route.Affinity > 0 {
		k.addAffinityRules(chain, old, route)
	}
	// There is one rule for each backend, and not one rule with a map of them. A packet that is in this chain while it
	// changes continues in the chain as it was, but would no longer find anything in a map that is being removed.
	for i, backend := range route.Backends {
		var keep expressions
		if route.Affinity > 0 {
			keep = slices.Concat(client, remember(k.clients(route, backend), route.Affinity))
		}
		k.rule(chain, oneOf(len(route.Backends)-i), keep, choose(backend), destinationNAT)
	}
	k.removeClients(old, route)
}

// addAffinityRules routes a known client to the same Pod as before. Each Pod has a list of its clients, which is
// removed with it.
func (k *kernel) addAffinityRules(chain *nftables.Chain, old, route Route) {
	for _, backend := range route.Backends {
		clients := k.clients(route, backend)
		if !old.tracksClients(backend) {
			k.must(k.conn.AddSet(clients, nil))
		}
		k.rule(chain, client, isOf(clients), remember(clients, route.Affinity), choose(backend), destinationNAT)
	}
}

func (k *kernel) removeRoute(route Route) {
	chain := &nftables.Chain{Table: k.table, Name: route.Name}
	k.conn.FlushChain(chain)
	k.conn.DelChain(chain)
	k.removeClients(route, Route{})
}

// removeClients removes the client lists of Pods that no longer have one.
func (k *kernel) removeClients(old, route Route) {
	for _, backend := range old.Backends {
		if old.tracksClients(backend) && !route.tracksClients(backend) {
			k.conn.DelSet(k.clients(old, backend))
		}
	}
}

// tracksClients reports whether there is a list of the clients that were routed to a Pod.
func (r Route) tracksClients(backend netip.AddrPort) bool {
	return r.Affinity > 0 && slices.Contains(r.Backends, backend)
}

// clients returns the list of the clients that a Route has routed to a Pod. The kernel itself adds to the list, and
// removes entries after a time.
func (k *kernel) clients(route Route, backend netip.AddrPort) *nftables.Set {
	return &nftables.Set{
		Table:      k.table,
		Name:       fmt.Sprintf("%s/%s/%d", route.Name, backend.Addr(), backend.Port()),
		KeyType:    nftables.TypeIPAddr,
		Dynamic:    true,
		HasTimeout: true,
	}
}

// must panics on errors that only a mistake in this code can cause. The kernel's own errors are returned by Flush.
func (k *kernel) must(err error) {
	if err != nil {
		panic(err)
	}
}
