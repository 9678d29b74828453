// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Join copies bytes in both directions until both sides have closed their end, or one has failed, or the context ends.
// It closes both. Between two TCP connections, no bytes are copied through this process, because Go asks the kernel to
// move them (splice).
func Join(ctx context.Context, one, other net.Conn) {
	defer one.Close()
	defer other.Close()
	defer context.AfterFunc(ctx, func() { one.Close(); other.Close() })()
	var back sync.WaitGroup
	back.Go(func() { copyStream(one, other) })
	copyStream(other, one)
	back.Wait()
}

// copyStream copies until one side has sent everything, and then signals the end to the other. If that fails, or the
// other side does not listen, it closes both. Otherwise a half-open connection would look to a program like a slow one.
func copyStream(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		to.Close()
		from.Close()
	}
}

// Refuse ends a connection that was accepted before it was known that the destination does not listen. It sends a
// reset, the closest equivalent of "connection refused" at that point.
func Refuse(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	connection.Close()
}

// largest is the maximum size of a datagram.
const largest = 1<<16 - 1

// JoinPackets is like Join, for two sockets that each exchange datagrams with one peer. Datagrams have no end of a
// connection, so it ends when neither side has sent one for the duration quiet.
func JoinPackets(ctx context.Context, one, other net.Conn, quiet time.Duration) {
	end := func() { one.Close(); other.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	idle := time.AfterFunc(quiet, end) // a datagram in either direction resets it
	defer idle.Stop()
	var back sync.WaitGroup
	back.Go(func() { copyPackets(one, other, idle, quiet) })
	copyPackets(other, one, idle, quiet)
	back.Wait()
}

func copyPackets(to, from net.Conn, idle *time.Timer, quiet time.Duration) {
	packet := make([]byte, largest)
	// The peer may report that no program listens there. One may listen later.
	Each(func() (int, error) { return from.Read(packet) }, func(n int) {
		idle.Reset(quiet)
		_, _ = to.Write(packet[:n]) // a datagram may be lost
	})
}

// Packets forwards the datagrams that a socket receives through other sockets, one for each peer, and returns the
// answers. It returns when the socket is closed and all conversations are over.
func Packets(
	ctx context.Context, socket net.PacketConn, quiet time.Duration, dial func(context.Context) (net.Conn, error),
) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	var mutex sync.Mutex
	peers := map[string]*peer{}
	packet := make([]byte, largest)
	type datagram struct {
		from net.Addr
		size int
	}
	Each(func() (d datagram, err error) {
		d.size, d.from, err = socket.ReadFrom(packet)
		return d, err
	}, func(d datagram) {
		name := d.from.String()
		mutex.Lock()
		known := peers[name]
		if known == nil && len(peers) < mostPeers {
			known = &peer{PacketConn: socket, address: d.from, incoming: make(chan []byte, 16), closed: make(chan struct{})}
			peers[name] = known
			work.Go(func() {
				if other, err := dial(ctx); err == nil {
					JoinPackets(ctx, known, other, quiet)
				}
				mutex.Lock()
				delete(peers, name)
				mutex.Unlock()
			})
		}
		mutex.Unlock()
		if known != nil {
			known.deliver(bytes.Clone(packet[:d.size]))
		}
	})
}

// mostPeers bounds how many conversations a socket has at the same time.
const mostPeers = 1024

// peer is one of the conversations of a socket.
type peer struct {
	net.PacketConn // datagrams to the peer are sent through it
	address        net.Addr
	incoming       chan []byte
	once           sync.Once
	closed         chan struct{}
}

func (p *peer) deliver(packet []byte) {
	select {
	case p.incoming <- packet:
	default: // a reader that is too slow loses datagrams
	}
}

func (p *peer) Read(buffer []byte) (int, error) {
	select {
	case packet := <-p.incoming:
		return copy(buffer, packet), nil
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

func (p *peer) Write(packet []byte) (int, error) { return p.WriteTo(packet, p.address) }
func (p *peer) RemoteAddr() net.Addr             { return p.address }

// Close ends the conversation, and leaves the socket open.
func (p *peer) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}
