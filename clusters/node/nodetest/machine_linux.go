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

// Machine stands for the machine that a node is on: a network to which that of the test has no way. Its sockets are
// made as a Crossing makes them.
type Machine struct{ namespace *os.File }

// NewMachine makes a machine with addresses besides 127.0.0.1.
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

// DialContext connects there.
func (m *Machine) DialContext(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = m.Inside(func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// Listen listens there.
func (m *Machine) Listen(ctx context.Context, network, address string) (listener net.Listener, err error) {
	err = m.Inside(func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// ListenPacket receives datagrams there.
func (m *Machine) ListenPacket(ctx context.Context, network, address string) (packets net.PacketConn, err error) {
	err = m.Inside(func() error {
		packets, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		return err
	})
	return packets, err
}
