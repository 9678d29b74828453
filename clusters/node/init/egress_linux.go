// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/plan"
	"lva.io/operators/clusters/node/relay"
	"lva.io/operators/clusters/socket"
)

const (
	// askTimeout is how long the API server may take to say where it wants to go.
	askTimeout = 10 * time.Second
	// goTimeout is how long it may take to get there.
	goTimeout = 5 * time.Second
)

// serveEgress is where the API server goes out to Pods, Services and the kubelet: by the CONNECT method of HTTP
// (KEP-1281). Whoever serves a Service on the machine, as `lab run` does, is asked first. The protocol is three lines,
// and package net/http would cost each container's start a millisecond.
func serveEgress(h plan.Host, inside *namespace.Crossing) error {
	if err := os.Remove(h.Egress); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier node: %w", err)
	}
	listener, err := socket.Listen(h.Egress)
	if err != nil {
		return err
	}
	go relay.Each(listener.Accept, func(connection net.Conn) { go lead(h, inside, connection) })
	return nil
}

func lead(h plan.Host, inside *namespace.Crossing, server net.Conn) {
	_ = server.SetReadDeadline(time.Now().Add(askTimeout))
	reader := bufio.NewReader(server)
	where, err := asked(reader)
	if err != nil {
		server.Close()
		return
	}
	_ = server.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(context.Background(), goTimeout)
	defer cancel()
	there := local(ctx, h.Local, where)
	if there == nil {
		if there, err = inside.DialContext(ctx, "tcp", where); err != nil {
			fmt.Fprintf(server, "HTTP/1.1 502 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", reason(err))
			server.Close()
			return
		}
	}
	if _, err := io.WriteString(server, "HTTP/1.1 200 connected\r\n\r\n"); err != nil {
		server.Close()
		there.Close()
		return
	}
	relay.Join(context.Background(), &buffered{server, reader}, there)
}

// reason is why there is no connection. The API server reports it to its client, behind the address: "proxy error from
// node.sock while dialing 10.244.0.7:443, code 502: 502 nobody answers there: connection refused". So the address is
// not repeated.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("nobody answers there within %s", goTimeout)
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	return "nobody answers there: " + strings.ReplaceAll(err.Error(), "\n", " ")
}

// asked reads the API server's question.
func asked(reader *bufio.Reader) (where string, err error) {
	first, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	words := strings.Fields(first)
	if len(words) < 2 || words[0] != "CONNECT" {
		return "", fmt.Errorf("%q is no CONNECT", first)
	}
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) == "" {
			return words[1], nil
		}
	}
}

// local connects by the program that serves Services on the machine. It returns nil if that program doesn't serve this
// one.
func local(ctx context.Context, path, where string) net.Conn {
	if path == "" {
		return nil
	}
	connection, err := socket.Dial(ctx, path)
	if err != nil {
		return nil
	}
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	reader := bufio.NewReader(connection)
	fmt.Fprintf(connection, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", where, where)
	answer, err := reader.ReadString('\n')
	if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200") {
		connection.Close()
		return nil
	}
	if end, err := reader.ReadString('\n'); err != nil || strings.TrimSpace(end) != "" {
		connection.Close()
		return nil
	}
	_ = connection.SetDeadline(time.Time{})
	return &buffered{connection, reader}
}

// buffered is a connection of which a part has been read.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

func (b *buffered) CloseWrite() error {
	half, ok := b.Conn.(interface{ CloseWrite() error })
	if !ok {
		return b.Close()
	}
	return half.CloseWrite()
}
