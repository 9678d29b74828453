// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package outside

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/relay"
)

// Resolver is a host name for the machine's current name servers: the address "resolver:0" is the first one,
// "resolver:1" the second. The name servers of a laptop change when it moves to another network.
const Resolver = "resolver"

// ErrNoResolver reports that the machine has no name server, or none with that number.
var ErrNoResolver = errors.New("the machine has no such name server in /etc/resolv.conf")

// resolvConf is the machine's resolv.conf(5).
var resolvConf = "/etc/resolv.conf"

// Dial connects in the network of the calling process, which must be on the machine. It is net.Dialer.DialContext, and
// also accepts the host Resolver.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if number, ok := strings.CutPrefix(address, Resolver+":"); ok {
		servers, err := nameServers()
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= len(servers) {
			return nil, ErrNoResolver
		}
		address = netip.AddrPortFrom(servers[n], 53).String()
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, network, address)
}

func nameServers() (servers []netip.Addr, err error) {
	content, err := os.ReadFile(resolvConf)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoResolver
	}
	if err != nil {
		return nil, fmt.Errorf("reading the machine's name servers: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if server, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

const (
	// answerTimeout is how long a name server may take before the next one is asked. It is shorter than the five seconds
	// after which programs ask again.
	answerTimeout = 2 * time.Second
	// mostServers is how many servers are asked. glibc has the same limit.
	mostServers = 3
	// mostQuestions bounds how many questions are open at the same time.
	mostQuestions = 256
)

// names serves DNS on the node's port 53.
type names struct {
	packets  net.PacketConn
	listener net.Listener
}

func listenDNS(ctx context.Context) (*names, error) {
	var config net.ListenConfig
	address := netip.AddrPortFrom(podnet.NodeAddress, 53).String()
	packets, err := config.ListenPacket(ctx, "udp4", address)
	if err != nil {
		return nil, fmt.Errorf("listening for DNS queries: %w", err)
	}
	listener, err := config.Listen(ctx, "tcp4", address)
	if err != nil {
		packets.Close()
		return nil, fmt.Errorf("listening for DNS queries: %w", err)
	}
	return &names{packets, listener}, nil
}

func (n *names) Close() {
	n.packets.Close()
	n.listener.Close()
}

func (n *names) serve(ctx context.Context, machine Machine) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { n.connections(ctx, machine) })
	free := make(chan struct{}, mostQuestions)
	packet := make([]byte, 1<<16)
	type datagram struct {
		from net.Addr
		size int
	}
	relay.Each(func() (d datagram, err error) {
		d.size, d.from, err = n.packets.ReadFrom(packet)
		return d, err
	}, func(d datagram) {
		if d.size < headerSize {
			return
		}
		question := bytes.Clone(packet[:d.size])
		select {
		case free <- struct{}{}:
		default:
			_, _ = n.packets.WriteTo(serverFailure(question), d.from)
			return
		}
		work.Go(func() {
			defer func() { <-free }()
			_, _ = n.packets.WriteTo(ask(ctx, machine, question), d.from)
		})
	})
}

// ask sends a question to the machine's name servers, one after the other.
func ask(ctx context.Context, machine Machine, question []byte) (answer []byte) {
	for i := range mostServers {
		server, err := machine.DialContext(ctx, "udp", Resolver+":"+strconv.Itoa(i))
		if err != nil {
			continue // the server does not exist, or can't be reached
		}
		answer, err := askOne(ctx, server, question)
		if err == nil {
			return answer
		}
	}
	return serverFailure(question)
}

func askOne(ctx context.Context, server net.Conn, question []byte) ([]byte, error) {
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := server.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, 1<<16)
	for {
		n, err := server.Read(answer)
		if err != nil {
			return nil, err
		}
		if n >= headerSize && bytes.Equal(answer[:2], question[:2]) { // the number of the question
			return answer[:n], nil
		}
	}
}

func (n *names) connections(ctx context.Context, machine Machine) {
	var work sync.WaitGroup
	defer work.Wait()
	relay.Each(n.listener.Accept, func(connection net.Conn) {
		work.Go(func() {
			for i := range mostServers {
				if server, err := machine.DialContext(ctx, "tcp", Resolver+":"+strconv.Itoa(i)); err == nil {
					relay.Join(ctx, connection, server)
					return
				}
			}
			relay.Refuse(connection)
		})
	})
}

// headerSize is the size of the header of a DNS message (RFC 1035, 4.1.1): its number, its flags, and the number of
// entries of each kind that follow.
const headerSize = 12

// serverFailure returns the answer that there is no resolver (SERVFAIL), so that the client need not wait. It repeats
// the question.
func serverFailure(question []byte) []byte {
	answer := bytes.Clone(question)
	answer[2] |= 0x80              // this is an answer
	answer[3] = answer[3]&0x70 | 2 // SERVFAIL, with the other flags unchanged
	return answer
}
