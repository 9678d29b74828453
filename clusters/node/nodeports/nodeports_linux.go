// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodeports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/relay"
	"lva.io/operators/clusters/node/services"
)

// Machine creates sockets in the machine's network.
type Machine interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// Ports are ports of the machine that are forwarded into the cluster. All methods are safe for concurrent use.
type Ports struct {
	machine Machine
	report  func(services.Port, error)

	mutex  sync.Mutex
	ctx    context.Context //nolint:containedctx // it is the life of all that is open
	end    context.CancelFunc
	open   map[services.Frontend]io.Closer
	failed map[services.Frontend]error
	wanted []services.Port
	work   sync.WaitGroup
}

// New returns Ports without open ports. A port that can't be opened is reported once, and tried again at each Publish,
// and from time to time.
func New(machine Machine, report func(port services.Port, err error)) *Ports {
	p := &Ports{
		machine: machine,
		report:  report,
		open:    map[services.Frontend]io.Closer{},
		failed:  map[services.Frontend]error{},
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.work.Go(p.retryFailed)
	return p
}

// retryInterval is how often Ports tries again to open the ports that failed.
const retryInterval = 2 * time.Second

func (p *Ports) retryFailed() {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-ticker.C:
			p.mutex.Lock()
			if len(p.failed) > 0 {
				p.follow()
			}
			p.mutex.Unlock()
		}
	}
}

// Publish opens the ports that are not open, and closes all others. Connections through a port that is closed stay
// open.
func (p *Ports) Publish(ports []services.Port) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.wanted = ports
	p.follow()
}

func (p *Ports) follow() {
	if p.ctx.Err() != nil {
		return
	}
	// Port 80 on all addresses, and port 80 on 127.0.0.1, are the same port of the machine.
	wanted := map[services.Frontend]services.Port{}
	for _, port := range p.wanted {
		at := port.Frontend
		at.Address = localhost
		if _, taken := wanted[at]; !taken || port.Address.IsValid() {
			wanted[at] = port
		}
	}
	for port, closer := range p.open {
		if _, ok := wanted[port]; !ok {
			closer.Close()
			delete(p.open, port)
		}
	}
	maps.DeleteFunc(p.failed, func(port services.Frontend, _ error) bool { _, ok := wanted[port]; return !ok })
	for at, port := range wanted {
		if _, ok := p.open[at]; ok {
			continue
		}
		closer, err := p.listen(at, port.Frontend)
		if err == nil {
			p.open[at] = closer
			delete(p.failed, at)
			continue
		}
		if p.failed[at] == nil || p.failed[at].Error() != err.Error() {
			p.report(port, err)
		}
		p.failed[at] = err
	}
}

// Failed returns the ports that could not be opened, with the reasons.
func (p *Ports) Failed() map[services.Frontend]error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.failed)
}

// Close closes all ports and all connections.
func (p *Ports) Close() {
	p.mutex.Lock()
	p.end()
	for _, closer := range p.open {
		closer.Close()
	}
	clear(p.open)
	p.mutex.Unlock()
	p.work.Wait()
}

var localhost = netip.MustParseAddr("127.0.0.1")

// listenTimeout is how long the machine may take to create a socket.
const listenTimeout = 5 * time.Second

func (p *Ports) listen(port, frontend services.Frontend) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(p.ctx, listenTimeout)
	defer cancel()
	address := netip.AddrPortFrom(localhost, port.Port).String()
	// In the node, it is the node's own port, from which the kernel's rules route connections further.
	inside := netip.AddrPortFrom(podnet.NodeAddress, port.Port).String()
	if frontend.Address.IsValid() {
		inside = netip.AddrPortFrom(frontend.Address, port.Port).String()
	}
	switch port.Protocol {
	case corev1.ProtocolTCP:
		listener, err := p.machine.Listen(ctx, "tcp4", address)
		if err != nil {
			return nil, explain(port, err)
		}
		p.work.Go(func() { p.accept(listener, inside) })
		return listener, nil
	case corev1.ProtocolUDP:
		packets, err := p.machine.ListenPacket(ctx, "udp4", address)
		if err != nil {
			return nil, explain(port, err)
		}
		p.work.Go(func() {
			relay.Packets(p.ctx, packets, quiet, func(ctx context.Context) (net.Conn, error) {
				return dialer.DialContext(ctx, "udp4", inside)
			})
		})
		return packets, nil
	}
	return nil, fmt.Errorf("%s port %d of this machine can't be forwarded into the cluster: only TCP and UDP ports can",
		port.Protocol, port.Port)
}

func explain(port services.Frontend, err error) error {
	what := fmt.Sprintf("%s port %d of this machine's 127.0.0.1", port.Protocol, port.Port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program: stop that program, or choose another port "+
			"(to find it, run: ss -ln 'sport = :%s'); inside the cluster the port works",
			what, strconv.Itoa(int(port.Port)))
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s requires root: choose port 1024 or higher; inside the cluster the port works", what)
	}
	return fmt.Errorf("%s can't be opened: %w", what, err)
}

var dialer = net.Dialer{Timeout: 10 * time.Second}

// quiet is how long a conversation by datagrams may be silent before it ends. The kernel uses the same time for a
// conversation in which both sides have sent datagrams.
const quiet = 120 * time.Second

func (p *Ports) accept(listener net.Listener, inside string) {
	relay.Each(listener.Accept, func(connection net.Conn) {
		p.work.Go(func() {
			pod, err := dialer.DialContext(p.ctx, "tcp4", inside)
			if err != nil {
				relay.Refuse(connection)
				return
			}
			relay.Join(p.ctx, connection, pod)
		})
	})
}

// String lists the open ports.
func (p *Ports) String() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []string
	for port := range p.open {
		all = append(all, fmt.Sprintf("%s/%d", strings.ToLower(string(port.Protocol)), port.Port))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
