// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// mtu is the size limit of a packet. There is no wire, so only the kernel's own limit counts, and large packets are
// cheaper.
const mtu = 65000

// Pod is a Pod's network.
type Pod struct {
	// ID is the ID that it was attached with.
	ID string
	// Address is the address of eth0.
	Address netip.Addr
	// Namespace is the network namespace. The caller closes it. The network exists until Detach, or as long as a process
	// is in it.
	Namespace *os.File
}

// Attach creates the network of a Pod. The kernel stores the ID, which can have 255 bytes at most.
func (n *Network) Attach(id string) (*Pod, error) {
	address, err := n.reserve(id)
	if err != nil {
		return nil, fmt.Errorf("assigning an address to the Pod %s: %w", id, err)
	}
	file, err := n.newNamespace(address)
	if err == nil {
		if err = errors.Join(n.connect(id, address), n.pin(address, file), await(file, address)); err == nil {
			return &Pod{ID: id, Address: address, Namespace: file}, nil
		}
		file.Close()
	}
	_ = removeLink(interfaceName(address))
	n.release(id)
	return nil, fmt.Errorf("creating the network of the Pod %s: %w", id, err)
}

// newNamespace creates a namespace with its end of the veth pair. The other end is in the node's namespace, and down.
func (n *Network) newNamespace(address netip.Addr) (file *os.File, err error) {
	err = namespace.KeepingNetwork(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("creating a network namespace: %w", err)
		}
		if file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		// The veth pair is created in this namespace, and its other end is moved. Here, no other interface can have the name
		// eth0.
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: mtu, HardwareAddr: podHardware(address)},
			PeerName:  interfaceName(address), PeerHardwareAddr: nodeHardware(address), PeerMTU: mtu,
			PeerNamespace: netlink.NsFd(n.node.Fd()),
		}
		if err := netlink.LinkAdd(cable); err != nil {
			return fmt.Errorf("creating a veth pair: %w", err)
		}
		return setUpPod(address)
	})
	if err != nil && file != nil {
		file.Close()
	}
	return file, err
}

// setUpPod sets up the Pod's end. The caller must be in the Pod's namespace.
func setUpPod(address netip.Addr) error {
	allowUnprivileged()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	disableIPv6("eth0")
	index := eth0.Attrs().Index
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"lo", func() error { return netlink.LinkSetUp(lo) }},
		{"eth0", func() error { return netlink.LinkSetUp(eth0) }},
		{"its address", func() error { return netlink.AddrAdd(eth0, &netlink.Addr{IPNet: host(address)}) }},
		// The node is always at the other end, so the Pod need not look up its hardware address.
		{"its neighbour", func() error {
			return netlink.NeighAdd(&netlink.Neigh{
				LinkIndex: index, State: netlink.NUD_PERMANENT, IP: NodeAddress.AsSlice(), HardwareAddr: nodeHardware(address),
			})
		}},
		{"the route to the node", func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: host(NodeAddress), Scope: netlink.SCOPE_LINK})
		}},
		{"its default route", func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: NodeAddress.AsSlice()})
		}},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("setting up %s: %w", step.what, err)
		}
	}
	return nil
}

// connect sets up the node's end. The alias comes last, because it marks an interface as complete.
func (n *Network) connect(id string, address netip.Addr) error {
	link, err := netlink.LinkByName(interfaceName(address))
	if err != nil {
		return err
	}
	disableIPv6(interfaceName(address))
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting up %s: %w", link.Attrs().Name, err)
	}
	index := link.Attrs().Index
	if err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: podHardware(address),
	}); err != nil {
		return fmt.Errorf("adding the neighbour entry of the Pod: %w", err)
	}
	// Without a source of its own, the route would use the first address of any interface.
	route := &netlink.Route{LinkIndex: index, Dst: host(address), Scope: netlink.SCOPE_LINK, Src: NodeAddress.AsSlice()}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("adding the route to the Pod: %w", err)
	}
	return netlink.LinkSetAlias(link, id)
}

// await waits until the veth pair carries packets, a moment after both ends are up: a worker of the kernel notifies
// each interface that the other end is up. Packets that a Pod sent before would be lost, and sent again a second later.
func await(network *os.File, address netip.Addr) error {
	if err := awaitLink(interfaceName(address)); err != nil {
		return err
	}
	return Inside(network, func() error { return awaitLink("eth0") })
}

// linkTimeout is how long that worker may take, and pollInterval is how often the link is read. Newer kernels do the
// worker's work when the link is read.
const (
	linkTimeout  = 5 * time.Second
	pollInterval = time.Millisecond
)

func awaitLink(name string) error {
	for deadline := time.Now().Add(linkTimeout); ; <-time.After(pollInterval) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the interface %s has no link after %s", name, linkTimeout)
		}
	}
}

// Detach removes a Pod's veth pair, and with it all routes. The kernel forgets the Pod's connections: a client that
// still sends packets to the Pod gets an error, or is routed to another Pod by the current rules. The address can be
// used again. It is no error to detach an ID that is not attached.
func (n *Network) Detach(id string) error {
	n.mutex.Lock()
	address, ok := n.pods[id]
	n.mutex.Unlock()
	if !ok {
		return nil
	}
	if err := removeLink(interfaceName(address)); err != nil {
		return fmt.Errorf("removing the network of the Pod %s: %w", id, err)
	}
	if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, connectionsOf(address)); err != nil {
		return fmt.Errorf("deleting the connections of the Pod %s from conntrack: %w", id, err)
	}
	n.release(id)
	return nil
}

// connectionsOf selects the connections of a Pod, whichever side has opened them.
type connectionsOf netip.Addr

// MatchConntrackFlow reports whether a connection is the Pod's. The client may have connected to a Service, but the Pod
// answers.
func (a connectionsOf) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	pod := netip.Addr(a).AsSlice()
	return flow.Forward.SrcIP.Equal(pod) || flow.Reverse.SrcIP.Equal(pod)
}

// removeLink removes one end of a veth pair, and with it the other.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) || errors.Is(err, unix.ENODEV) {
		return nil // its namespace no longer exists
	}
	return err
}

// disableIPv6 keeps an interface from sending IPv6 packets about itself. Programs can still listen on [::].
func disableIPv6(name string) { _ = setting{"net/ipv6/conf/" + name + "/disable_ipv6", "1"}.write() }

// podHardware returns the hardware address of the Pod's end, and nodeHardware that of the node's end. Both contain the
// Pod's address. The second bit of the first byte means that no manufacturer assigned them.
func podHardware(address netip.Addr) net.HardwareAddr {
	bytes := address.As4()
	return append(net.HardwareAddr{0x02, 0x01}, bytes[:]...)
}

func nodeHardware(address netip.Addr) net.HardwareAddr {
	bytes := address.As4()
	return append(net.HardwareAddr{0x02, 0x00}, bytes[:]...)
}
