// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const patience = 5 * time.Second

// pair returns the two ends of a connection.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []net.Conn{dialed, accepted} {
		t.Cleanup(func() { end.Close() })
		if err := end.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// joined returns the ends of two connections whose other ends are joined. over is closed when Join has returned.
func joined(ctx context.Context, t *testing.T) (one, other *net.TCPConn, over chan struct{}) {
	t.Helper()
	one, a := pair(t)
	other, b := pair(t)
	over = make(chan struct{})
	go func() {
		defer close(over)
		Join(ctx, a, b)
	}()
	return one, other, over
}

func await(t *testing.T, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("Join did not return")
	}
}

func TestJoinCopiesBothDirectionsUntilEOF(t *testing.T) {
	t.Parallel()
	one, other, over := joined(t.Context(), t)
	question, answer := strings.Repeat("?", 1<<20), strings.Repeat("!", 1<<20)
	go func() {
		_, _ = io.WriteString(one, question)
		_ = one.CloseWrite()
	}()
	if received, err := io.ReadAll(other); err != nil || string(received) != question {
		t.Errorf("sent %d bytes, received %d: %v", len(question), len(received), err)
	}
	go func() { // only now, when the first side has sent everything
		_, _ = io.WriteString(other, answer)
		_ = other.CloseWrite()
	}()
	if received, err := io.ReadAll(one); err != nil || string(received) != answer {
		t.Errorf("sent %d bytes, received %d: %v", len(answer), len(received), err)
	}
	await(t, over)
}

func TestJoinClosesOtherSideOnReset(t *testing.T) {
	t.Parallel()
	one, other, over := joined(t.Context(), t)
	Refuse(one) // by a reset
	if _, err := io.ReadAll(other); errors.Is(err, syscall.EAGAIN) || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	await(t, over)
}

func TestJoinEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, _, over := joined(ctx, t)
	cancel()
	await(t, over)
}

func TestRefuseResetsTheConnection(t *testing.T) {
	t.Parallel()
	client, server := pair(t)
	Refuse(server)
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

// echo answers datagrams, and counts them.
func echo(t *testing.T) (address string, received *atomic.Int64) {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	received = &atomic.Int64{}
	go func() {
		packet := make([]byte, largest)
		for {
			n, from, err := socket.ReadFrom(packet)
			if err != nil {
				return
			}
			received.Add(1)
			_, _ = socket.WriteTo(packet[:n], from)
		}
	}()
	return socket.LocalAddr().String(), received
}

func TestPackets(t *testing.T) {
	t.Parallel()
	const quiet = 50 * time.Millisecond
	address, received := echo(t)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dialed atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		Packets(t.Context(), socket, quiet, func(ctx context.Context) (net.Conn, error) {
			dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "udp4", address)
		})
	}()
	exchange := func(client net.Conn) {
		t.Helper()
		_ = client.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(client, "hello"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 10)
		if n, err := client.Read(answer); err != nil || string(answer[:n]) != "hello" {
			t.Fatalf("got answer %q, %v; want hello", answer[:n], err)
		}
	}
	var clients []net.Conn
	for range 3 {
		client, err := net.Dial("udp4", socket.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		exchange(client)
		clients = append(clients, client)
	}
	if dialed.Load() != 3 || received.Load() != 3 {
		t.Errorf("three clients have %d conversations and %d datagrams, want 3 and 3", dialed.Load(), received.Load())
	}
	// After a silence, the next datagram begins another conversation.
	for deadline := time.Now().Add(patience); dialed.Load() == 3; {
		if time.Now().After(deadline) {
			t.Fatal("an idle conversation does not end")
		}
		<-time.After(2 * quiet)
		exchange(clients[0])
	}
	socket.Close()
	await(t, over)
}

// failing is a socket that fails at once, because its deadline has passed. It counts the calls.
type failing struct {
	net.PacketConn
	asked atomic.Int64
}

func (f *failing) ReadFrom(buffer []byte) (int, net.Addr, error) {
	f.asked.Add(1)
	return f.PacketConn.ReadFrom(buffer)
}

func TestPacketsBacksOffOnPersistentError(t *testing.T) {
	t.Parallel()
	address, _ := echo(t)
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket := &failing{PacketConn: packets}
	if err := socket.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		Packets(t.Context(), socket, patience, func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp4", address)
		})
	}()
	const span, most = 200 * time.Millisecond, 50
	<-time.After(span)
	if asked := socket.asked.Load(); asked == 0 || asked > most {
		t.Errorf("in %s, the socket was read %d times", span, asked)
	}
	if err := socket.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("udp4", socket.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 10)
	if n, err := client.Read(answer); err != nil || string(answer[:n]) != "hello" {
		t.Errorf("after the error, got answer %q, %v; want hello", answer[:n], err)
	}
	socket.Close()
	await(t, over)
}
