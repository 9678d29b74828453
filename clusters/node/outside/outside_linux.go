// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package outside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/relay"
)

// Machine connects in the machine's network. It also accepts the host Resolver: see Dial.
type Machine interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	// dialTimeout is how long a server outside may take to accept a connection.
	dialTimeout = 10 * time.Second
	// quiet is how long a conversation by UDP may be silent before it ends.
	quiet = 120 * time.Second
)

// Run connects the Pods of the node, in whose network namespace it is called, to the outside, until the context ends.
func Run(ctx context.Context, machine Machine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &forwarder{machine: machine, flows: map[flow]chan []byte{}}
	config := net.ListenConfig{Control: transparent}
	listener, err := config.Listen(ctx, "tcp4", netip.AddrPortFrom(podnet.NodeAddress, 0).String())
	if err != nil {
		return fmt.Errorf("listening for connections to the outside: %w", err)
	}
	defer listener.Close()
	packets, err := config.ListenPacket(ctx, "udp4", netip.AddrPortFrom(podnet.NodeAddress, 0).String())
	if err != nil {
		return fmt.Errorf("listening for datagrams to the outside: %w", err)
	}
	defer packets.Close()
	names, err := listenDNS(ctx)
	if err != nil {
		return err
	}
	defer names.Close()
	// The rules come last, so that the packets that they send here find a listener.
	if err := addRules(portOf(listener.Addr()), portOf(packets.LocalAddr())); err != nil {
		return fmt.Errorf("redirecting connections to the outside: %w", err)
	}
	var work sync.WaitGroup
	work.Go(func() { w.connections(ctx, listener) })
	work.Go(func() { w.datagrams(ctx, packets.(*net.UDPConn)) })
	work.Go(func() { names.serve(ctx, machine) })
	<-ctx.Done()
	listener.Close()
	packets.Close()
	names.Close()
	work.Wait()
	return context.Cause(ctx)
}

func portOf(address net.Addr) uint16 {
	parsed, _ := netip.ParseAddrPort(address.String()) // a socket's own address is always valid
	return parsed.Port()
}

// transparent allows a socket to use addresses that are not the node's, and to learn the original destination of a
// datagram.
func transparent(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(descriptor uintptr) {
		for _, option := range []int{unix.IP_TRANSPARENT, unix.IP_RECVORIGDSTADDR} {
			if failed == nil {
				failed = unix.SetsockoptInt(int(descriptor), unix.SOL_IP, option, 1)
			}
		}
		// Several conversations with the same address outside share it as their local address.
		failed = errors.Join(failed, unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	})
	return errors.Join(err, failed)
}

// forwarder forwards connections and datagrams to the outside.
type forwarder struct {
	machine Machine

	mutex sync.Mutex
	flows map[flow]chan []byte
	work  sync.WaitGroup
}

func (w *forwarder) connections(ctx context.Context, listener net.Listener) {
	defer w.work.Wait()
	relay.Each(listener.Accept, func(connection net.Conn) {
		w.work.Go(func() { w.connect(ctx, connection) })
	})
}

// connect forwards a connection. Its local address is the one that the Pod wanted to reach.
func (w *forwarder) connect(ctx context.Context, connection net.Conn) {
	wanted, err := netip.ParseAddrPort(connection.LocalAddr().String())
	// A client that connects to the agent's own port gets no connection to the outside.
	if err != nil || isInside(wanted.Addr()) {
		relay.Refuse(connection)
		return
	}
	dialed, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	remote, err := w.machine.DialContext(dialed, "tcp", wanted.String())
	if err != nil {
		relay.Refuse(connection)
		return
	}
	relay.Join(ctx, connection, remote)
}

// flow is a conversation by UDP.
type flow struct{ from, to netip.AddrPort }

// datagrams receives the first datagrams of each conversation. The others arrive on a socket of the conversation, which
// the kernel prefers.
func (w *forwarder) datagrams(ctx context.Context, socket *net.UDPConn) {
	var work sync.WaitGroup
	defer work.Wait()
	packet, control := make([]byte, 1<<16), make([]byte, 256)
	type datagram struct {
		from             netip.AddrPort
		size, controlled int
	}
	relay.Each(func() (d datagram, err error) {
		d.size, d.controlled, _, d.from, err = socket.ReadMsgUDPAddrPort(packet, control)
		return d, err
	}, func(d datagram) {
		f := flow{d.from, originalDestination(control[:d.controlled])}
		if isInside(f.to.Addr()) {
			return
		}
		w.mutex.Lock()
		queue, known := w.flows[f]
		if !known && len(w.flows) < mostFlows {
			queue = make(chan []byte, 16)
			w.flows[f] = queue
			work.Go(func() {
				w.forwardDatagrams(ctx, f, queue)
				w.mutex.Lock()
				delete(w.flows, f)
				w.mutex.Unlock()
			})
		}
		w.mutex.Unlock()
		select {
		case queue <- append([]byte(nil), packet[:d.size]...):
		default: // too many datagrams: some may be lost
		}
	})
}

// mostFlows bounds how many sockets the agent opens for Pods.
const mostFlows = 2048

// originalDestination returns the address that a datagram was sent to.
func originalDestination(control []byte) netip.AddrPort {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.AddrPort{}
	}
	for _, message := range messages {
		address, err := unix.ParseOrigDstAddr(&message)
		if address, ok := address.(*unix.SockaddrInet4); ok && err == nil {
			return netip.AddrPortFrom(netip.AddrFrom4(address.Addr), uint16(address.Port))
		}
	}
	return netip.AddrPort{}
}

// forwardDatagrams forwards one conversation by UDP. queue has its first datagrams.
func (w *forwarder) forwardDatagrams(ctx context.Context, f flow, queue <-chan []byte) {
	remote, err := w.machine.DialContext(ctx, "udp", f.to.String())
	if err != nil {
		return
	}
	// The Pod receives the answers from the address to which it has sent its datagrams.
	dialer := net.Dialer{Control: transparent, LocalAddr: net.UDPAddrFromAddrPort(f.to)}
	pod, err := dialer.DialContext(ctx, "udp4", f.from.String())
	if err != nil {
		remote.Close()
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	over := make(chan struct{})
	defer close(over)
	work.Go(func() {
		for {
			select {
			case packet := <-queue:
				_, _ = remote.Write(packet)
			case <-over:
				return
			}
		}
	})
	relay.JoinPackets(ctx, pod, remote, quiet)
}
