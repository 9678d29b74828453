// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses of a cluster. They are those of kubeadm, which the embedded API server assigns, too.
var (
	// PodNetwork is the range of Pod addresses.
	PodNetwork = netip.MustParsePrefix("10.244.0.0/16")
	// NodeAddress is the address of the node.
	NodeAddress = netip.MustParseAddr("10.244.0.1")
	// ServiceNetwork is the range of Service addresses.
	ServiceNetwork = netip.MustParsePrefix("10.96.0.0/16")
)

// Network is the network of a node's Pods. All methods are safe for concurrent use.
type Network struct {
	node *os.File // the namespace

	mutex sync.Mutex
	pods  map[string]netip.Addr // by ID
	taken map[netip.Addr]bool
	last  netip.Addr // the address that was assigned last
	// namespaces has the Pods that this agent has attached.
	namespaces map[netip.Addr]*os.File
}

// Open brings up the node's own side, in the network namespace of the caller, and finds the Pods that are already
// attached.
func Open() (*Network, error) {
	if err := setUpNode(); err != nil {
		return nil, fmt.Errorf("setting up the node's network: %w", err)
	}
	node, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("setting up the node's network: %w", err)
	}
	pods, err := attached()
	if err != nil {
		node.Close()
		return nil, fmt.Errorf("listing the interfaces of Pods: %w", err)
	}
	n := newNetwork(pods)
	n.node = node
	return n, nil
}

func newNetwork(pods map[string]netip.Addr) *Network {
	n := &Network{pods: pods, taken: map[netip.Addr]bool{}, last: NodeAddress, namespaces: map[netip.Addr]*os.File{}}
	for _, reserved := range []netip.Addr{PodNetwork.Addr(), NodeAddress, broadcast} {
		n.taken[reserved] = true
	}
	for _, address := range pods {
		n.taken[address] = true
		if n.last.Less(address) {
			n.last = address
		}
	}
	return n
}

// Close releases the network's descriptors. Attached Pods stay attached.
func (n *Network) Close() error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, namespace := range n.namespaces {
		namespace.Close()
	}
	clear(n.namespaces)
	return n.node.Close()
}

// Namespace returns the network namespace of the Pod that has an address. The file belongs to the network, and Detach
// closes it. For a Pod that an earlier agent has attached, it returns nil.
func (n *Network) Namespace(address netip.Addr) *os.File {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.namespaces[address]
}

// pin keeps a descriptor of our own for a namespace, in addition to the one that the caller gets.
func (n *Network) pin(address netip.Addr, namespace *os.File) error {
	descriptor, err := unix.FcntlInt(namespace.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.namespaces[address] = os.NewFile(uintptr(descriptor), namespace.Name())
	return nil
}

func setUpNode() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	if err := netlink.AddrReplace(lo, &netlink.Addr{IPNet: host(NodeAddress)}); err != nil {
		return fmt.Errorf("adding the node's address: %w", err)
	}
	// Addresses that no Pod has are unreachable at once, without a time-out.
	if err := netlink.RouteReplace(&netlink.Route{Dst: Prefix(PodNetwork), Type: unix.RTN_UNREACHABLE}); err != nil {
		return fmt.Errorf("adding the route for unassigned addresses: %w", err)
	}
	for _, setting := range []setting{
		{"net/ipv4/ip_forward", "1"}, // a node is a router
		// Packets with a forged source address are dropped. The kernel checks whether the answer would take the route on
		// which the packet arrived.
		{"net/ipv4/conf/all/rp_filter", "1"},
		// The node's redirects to a shorter route would always be wrong here.
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
	} {
		if err := setting.write(); err != nil {
			return err
		}
	}
	// A packet to a port without a listener gets an ICMP error each time. By default, the kernel sends one a second, so
	// that it doesn't flood the Internet.
	_ = setting{"net/ipv4/icmp_ratelimit", "0"}.write()
	allowUnprivileged()
	return nil
}

// allowUnprivileged lets programs in the caller's namespace listen on ports below 1024, and ping, as containerd and
// Docker do. A setting that the kernel doesn't know is skipped.
func allowUnprivileged() {
	_ = setting{"net/ipv4/ip_unprivileged_port_start", "0"}.write()
	// Groups that the user namespace doesn't map can't be written. Then only root can ping.
	if err := (setting{"net/ipv4/ping_group_range", "0 2147483647"}).write(); err != nil {
		_ = setting{"net/ipv4/ping_group_range", "0 0"}.write()
	}
}

// setting is a kernel setting in the network namespace of the thread that writes it.
type setting struct{ name, value string }

func (s setting) write() error {
	if err := os.WriteFile(filepath.Join("/proc/sys", s.name), []byte(s.value), 0); err != nil {
		return fmt.Errorf("setting %s to %q: %w", s.name, s.value, err)
	}
	return nil
}

// attached finds the Pods of an earlier agent. An interface's name has the address, and its alias has the ID of the
// Pod.
func attached() (map[string]netip.Addr, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	pods := map[string]netip.Addr{}
	for _, link := range links {
		address, ok := addressOf(link.Attrs().Name)
		if !ok {
			continue
		}
		if link.Attrs().Alias == "" { // the process that created it was killed before a Pod had it
			if err := removeLink(link.Attrs().Name); err != nil {
				return nil, err
			}
			continue
		}
		pods[link.Attrs().Alias] = address
	}
	return pods, nil
}

// Pods returns the addresses of the attached Pods, by ID.
func (n *Network) Pods() map[string]netip.Addr {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return maps.Clone(n.pods)
}

// interfaceName returns the name of the node's end of a Pod's veth pair.
func interfaceName(address netip.Addr) string {
	bytes := address.As4()
	return fmt.Sprintf("pod%d-%d", bytes[2], bytes[3])
}

func addressOf(name string) (netip.Addr, bool) {
	bytes := PodNetwork.Addr().As4()
	if n, err := fmt.Sscanf(name, "pod%d-%d", &bytes[2], &bytes[3]); err != nil || n != 2 {
		return netip.Addr{}, false
	}
	address := netip.AddrFrom4(bytes)
	return address, interfaceName(address) == name
}

// reserve assigns the next address, and not the first one that is free. A client that still has the address of a
// deleted Pod must not reach another Pod at it.
func (n *Network) reserve(id string) (netip.Addr, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if _, ok := n.pods[id]; ok {
		return netip.Addr{}, errors.New("already attached")
	}
	for address := nextAddress(n.last); address != n.last; address = nextAddress(address) {
		if !n.taken[address] {
			n.pods[id], n.taken[address], n.last = address, true, address
			return address, nil
		}
	}
	return netip.Addr{}, errors.New("no address is free")
}

var broadcast = netip.MustParseAddr("10.244.255.255")

func nextAddress(address netip.Addr) netip.Addr {
	if next := address.Next(); PodNetwork.Contains(next) {
		return next
	}
	return PodNetwork.Addr()
}

func (n *Network) release(id string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	address := n.pods[id]
	if namespace := n.namespaces[address]; namespace != nil {
		namespace.Close()
		delete(n.namespaces, address)
	}
	delete(n.taken, address)
	delete(n.pods, id)
}

// Prefix converts a netip.Prefix for netlink.
func Prefix(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

// host returns the network that has only this address.
func host(address netip.Addr) *net.IPNet {
	return Prefix(netip.PrefixFrom(address, address.BitLen()))
}
