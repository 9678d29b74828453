// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package relay carries what is said between two sockets that are in different networks: bytes of connections, and datagrams. It makes
// no connection itself, and looks at nothing that it carries.
package relay

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Join carries bytes both ways until both sides have said all, or one of them has failed, or the context ends. It closes both. Between
// two TCP connections, no byte comes into this process: Go asks the kernel to move them (splice).
func Join(ctx context.Context, one, other net.Conn) {
	defer one.Close()
	defer other.Close()
	defer context.AfterFunc(ctx, func() { one.Close(); other.Close() })()
	var back sync.WaitGroup
	back.Go(func() { carry(one, other) })
	carry(other, one)
	back.Wait()
}

// carry copies until one side has said all, and tells the other so. If that can't be told, or the other doesn't listen, both have to
// know: a connection of which half is gone looks to a program like one that is slow.
func carry(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		to.Close()
		from.Close()
	}
}

// Refuse ends a connection that was accepted before it was known that nobody is there. Its client learns by a reset, which is as near
// to "connection refused" as one can come then.
func Refuse(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	connection.Close()
}

// largest is what a datagram can hold at most.
const largest = 1<<16 - 1

// JoinPackets is Join for two sockets that send each datagram to one peer. Nobody says when a conversation by datagrams is over: it is
// when nothing was said for a time.
func JoinPackets(ctx context.Context, one, other net.Conn, quiet time.Duration) {
	defer one.Close()
	defer other.Close()
	defer context.AfterFunc(ctx, func() { one.Close(); other.Close() })()
	// A word in either direction keeps both alive.
	over := time.AfterFunc(quiet, func() { one.Close(); other.Close() })
	defer over.Stop()
	var back sync.WaitGroup
	back.Go(func() { carryPackets(one, other, over, quiet) })
	carryPackets(other, one, over, quiet)
	back.Wait()
}

func carryPackets(to, from net.Conn, over *time.Timer, quiet time.Duration) {
	packet := make([]byte, largest)
	for {
		n, err := from.Read(packet)
		if err != nil {
			to.Close() // so that the other direction ends as well
			return
		}
		if !over.Reset(quiet) {
			return // it has been closed
		}
		_, _ = to.Write(packet[:n]) // a datagram may be lost
	}
}
