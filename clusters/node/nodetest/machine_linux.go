// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodetest

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Machine simulates the machine that runs a node: a network to which the test's network has no route. It creates
// sockets as a Crossing does.
type Machine struct{ namespace *os.File }

// NewMachine creates a machine with addresses in addition to 127.0.0.1.
func NewMachine(tb testing.TB, addresses ...string) *Machine {
	tb.Helper()
	m := &Machine{}
	err := namespace.KeepingNetwork(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if m.namespace, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, address := range addresses {
			parsed, err := netlink.ParseAddr(address + "/32")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(lo, parsed); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.namespace.Close() })
	return m
}

// Inside runs a function in the machine's network.
func (m *Machine) Inside(f func() error) error {
	return namespace.KeepingNetwork(func() error {
		if err := unix.Setns(int(m.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// DialContext connects in the machine's network.
func (m *Machine) DialContext(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = m.Inside(func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// Listen listens in the machine's network.
func (m *Machine) Listen(ctx context.Context, network, address string) (listener net.Listener, err error) {
	err = m.Inside(func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// ListenPacket receives datagrams in the machine's network.
func (m *Machine) ListenPacket(ctx context.Context, network, address string) (packets net.PacketConn, err error) {
	err = m.Inside(func() error {
		packets, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		return err
	})
	return packets, err
}
