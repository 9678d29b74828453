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
	// requestTimeout is how long the API server may take to send its request.
	requestTimeout = 10 * time.Second
	// dialTimeout limits connecting to the address in the request. It equals the longest timeout of a webhook, because
	// connections wait while a program is replaced.
	dialTimeout = 30 * time.Second
)

// serveEgress accepts the connections of the API server to Pods, Services and the kubelet. The API server uses the
// CONNECT method of HTTP (KEP-1281). A program that serves Services on the machine, such as `lab run`, takes
// precedence. The code does not use package net/http, because the protocol is three lines, and the package would cost
// each container's start a millisecond.
func serveEgress(h plan.Host, inside *namespace.Crossing) error {
	if err := os.Remove(h.Egress); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier node: %w", err)
	}
	listener, err := socket.Listen(h.Egress)
	if err != nil {
		return err
	}
	go relay.Each(listener.Accept, func(connection net.Conn) { go tunnel(h, inside, connection) })
	return nil
}

func tunnel(h plan.Host, inside *namespace.Crossing, server net.Conn) {
	_ = server.SetReadDeadline(time.Now().Add(requestTimeout))
	reader := bufio.NewReader(server)
	address, err := connectTarget(reader)
	if err != nil {
		server.Close()
		return
	}
	_ = server.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	target := dialLocal(ctx, h.Local, address)
	if target == nil {
		if target, err = inside.DialContext(ctx, "tcp", address); err != nil {
			fmt.Fprintf(server, "HTTP/1.1 502 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", reason(err))
			server.Close()
			return
		}
	}
	if _, err := io.WriteString(server, "HTTP/1.1 200 connected\r\n\r\n"); err != nil {
		server.Close()
		target.Close()
		return
	}
	relay.Join(context.Background(), &buffered{server, reader}, target)
}

// reason returns why there is no connection. The API server reports it to its client, behind the address: "proxy error
// from node.sock while dialing 10.244.0.7:443, code 502: 502 nobody answers there: connection refused". So the address
// is not repeated.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("nobody answers there within %s", dialTimeout)
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	return "nobody answers there: " + strings.ReplaceAll(err.Error(), "\n", " ")
}

// connectTarget reads the API server's CONNECT request, and returns its address.
func connectTarget(reader *bufio.Reader) (address string, err error) {
	first, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	fields := strings.Fields(first)
	if len(fields) < 2 || fields[0] != "CONNECT" {
		return "", fmt.Errorf("%q is not a CONNECT request", first)
	}
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) == "" {
			return fields[1], nil
		}
	}
}

// dialLocal connects through the program that serves Services on the machine. It returns nil if that program doesn't
// serve the address.
func dialLocal(ctx context.Context, path, address string) net.Conn {
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
	fmt.Fprintf(connection, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address)
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

// buffered is a connection from which some bytes have been read already.
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
