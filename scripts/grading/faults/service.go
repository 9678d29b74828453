// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// service is the proxy of one service. It forwards requests, parses them and refuses them as that service would.
type service struct {
	injector *Injector
	proxy    *httputil.ReverseProxy
	// parse returns what a request asks for.
	parse func(*http.Request) request
	// refuse returns an error in the form in which the service would send it.
	refuse func(*apierrors.StatusError) refusal
	// detail returns the reason why the service itself refused a request. Nil: no reason is known.
	detail func(*http.Response) string
}

// refusal is an answer of the injector itself.
type refusal struct {
	code      int
	mediaType string
	body      []byte
}

func (a refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.mediaType)
	if a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfterHeader)
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // an error means that the operator has disconnected
}

// retryAfterHeader is in seconds.
const retryAfterHeader = "1"

func (s *service) forward(transport http.RoundTripper, rewrite func(*httputil.ProxyRequest)) {
	s.proxy = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   rewrite,
		// Flush at once, because a watch is a body that never ends.
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			x := answer.Request.Context().Value(exchangeKey{}).(*exchange)
			if s.detail != nil {
				detail := s.detail(answer)
				s.injector.record.update(x.logged, func(e *Entry) { e.Message = detail })
			}
			return x.answered(answer)
		},
		// Whatever prevented the answer, the operator sees a dropped connection, as it does without a proxy.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { cutOff() },
		ErrorLog:     silent,
	}
}

// silent discards the messages of servers about clients that die, which is expected here.
var silent = log.New(io.Discard, "", 0)

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end, ok := s.injector.begin(nil)
	if !ok {
		cutOff()
	}
	defer end()
	s.injector.enter(s.parse(r), connectionOf(r.Context())).serve(w, r, s)
}

// listen serves on a port of this machine until Close, and returns the address by which the operator reaches it. With a
// TLS configuration it serves HTTP/2 as well.
func (s *service) listen(config *tls.Config) (address string, err error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(s.injector.address(), "0"))
	if err != nil {
		return "", fmt.Errorf("listening for the operator's requests: %w", err)
	}
	server := &http.Server{
		Handler: s, TLSConfig: config, ReadHeaderTimeout: time.Minute, ErrorLog: silent,
		ConnContext: s.injector.connected,
		ConnState:   s.injector.connectionState,
	}
	serving, ok := s.injector.begin(func() {
		_ = server.Close()
		_ = listener.Close() // the server closes it only if it serves already
	})
	if !ok {
		listener.Close()
		return "", errClosed
	}
	go func() {
		defer serving()
		// Both return when the server is closed, and their error reports only that.
		if config != nil {
			_ = server.ServeTLS(listener, "", "")
		} else {
			_ = server.Serve(listener)
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort(s.injector.advertiseAddress(), port), err
}

// loopback is an address that only this machine can reach.
const loopback = "127.0.0.1"

func (i *Injector) address() string { return cmp.Or(i.Address, loopback) }

func (i *Injector) advertiseAddress() string { return cmp.Or(i.AdvertiseAddress, i.address()) }

// connection is a connection of the operator to a proxy. Connections distinguish an operator from the one that is
// started after it.
type connection struct {
	net.Conn
	// marked is true if the operator at the other end is being killed. The injector's mutex guards it.
	marked bool
	// ended is closed when the connection has ended.
	ended chan struct{}
	once  sync.Once
}

func (c *connection) end() {
	c.once.Do(func() { close(c.ended) })
	_ = c.Close()
}

// reset lets the connection end with RST when it is closed, where that is possible.
func (c *connection) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // If the client has closed it by now, there is nothing to be reset.
	}
}

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection { return ctx.Value(connectionKey{}).(*connection) }

func (i *Injector) connected(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{Conn: conn, ended: make(chan struct{})}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	c.marked = i.refusing
	i.connections[c] = true
	return context.WithValue(ctx, connectionKey{}, c)
}

func (i *Injector) connectionState(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for c := range i.connections {
		if c.Conn == conn {
			c.once.Do(func() { close(c.ended) })
			delete(i.connections, c)
		}
	}
}
