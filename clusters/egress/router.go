// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/socket"
)

const (
	// askTimeout is how long the API server may take to send its CONNECT request.
	askTimeout = 10 * time.Second
	// dialTimeout is how long a local process may take to accept.
	dialTimeout = 5 * time.Second
)

// ErrTaken reports that another Router listens on the socket.
var ErrTaken = errors.New("another process serves this cluster's Services already: end that first")

// Router forwards connections to Services. All methods are safe for concurrent use.
type Router struct {
	path   string
	unlock func()
	server *http.Server

	mutex  sync.Mutex
	routes map[string]string // ClusterIP:port to host:port
	open   map[net.Conn]struct{}
	held   map[string]chan struct{} // by host:port; closed when released
	closed bool

	tunnels sync.WaitGroup
}

// Listen listens on a Unix socket. It replaces the file that a killed Router left. If another Router is listening, the
// error is ErrTaken. The path may be longer than a socket's name may be.
func Listen(path string) (*Router, error) {
	// The lock shows whether a Router listens. Unlike the socket's file, it ends with its process, however that ends.
	unlock, err := filelock.Try(path + ".lock")
	if errors.Is(err, filelock.ErrHeld) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("locking the API server's egress socket: %w", err)
	}
	listener, err := listenLocked(path)
	if err != nil {
		unlock()
		return nil, err
	}
	r := &Router{
		path: path, unlock: unlock, routes: map[string]string{},
		open: map[net.Conn]struct{}{}, held: map[string]chan struct{}{},
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: askTimeout}
	r.tunnels.Go(func() { _ = r.server.Serve(listener) }) // ends with Close
	return r, nil
}

func listenLocked(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier run: %w", err)
	}
	listener, err := socket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("waiting for the API server: %w", err)
	}
	return listener, nil
}

// Route forwards connections to a Service, its ClusterIP:port, to a local host:port. It replaces an earlier route of
// the Service. Open connections are not affected.
func (r *Router) Route(service, local string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.routes[service] = local
}

// Hold delays new connections to a local host:port while the process there is being replaced, when they would otherwise
// be refused. They wait until release is called or the client disconnects. There is no other time limit, because the
// replacement takes long on a busy machine. Release one Hold of an address before the next.
func (r *Router) Hold(local string) (release func()) {
	released := make(chan struct{})
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.held[local] = released
	return sync.OnceFunc(func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		delete(r.held, local)
		close(released)
	})
}

// Close stops listening, closes all open connections, and removes the socket.
func (r *Router) Close() error {
	r.mutex.Lock()
	if r.closed {
		r.mutex.Unlock()
		return nil
	}
	r.closed = true
	for connection := range r.open {
		connection.Close()
	}
	r.mutex.Unlock()
	err := r.server.Close()
	r.tunnels.Wait()
	if removed := os.Remove(r.path); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	r.unlock() // last, because then another Router may listen
	return err
}

// ServeHTTP answers the API server's CONNECT request, and then copies bytes both ways.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodConnect {
		http.Error(w, "only CONNECT is answered here", http.StatusMethodNotAllowed)
		return
	}
	process, refusal := r.dial(request.Context(), request.URL.Host)
	if process != nil {
		defer r.forget(process)
	}
	server, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the API server has disconnected
	}
	defer r.forget(server)
	if refusal != "" {
		// The API server repeats the first line of a refusal to its client, so that line contains the reason.
		fmt.Fprintf(server, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
			"Content-Length: %d\r\nConnection: close\r\n\r\n%s\n",
			http.StatusBadGateway, refusal, len(refusal)+1, refusal)
		return
	}
	if !r.keep(server) {
		return
	}
	if _, err := io.WriteString(server, "HTTP/1.1 200 connected\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { copyThenClose(server, process) })
	copyThenClose(process, struct{ io.Reader }{buffered})
	back.Wait()
}

// dial connects to the process that serves a Service, or returns the reason why it can't.
func (r *Router) dial(ctx context.Context, service string) (process net.Conn, refusal string) {
	r.mutex.Lock()
	local, known := r.routes[service]
	released := r.held[local] // nil: it is not held
	r.mutex.Unlock()
	if !known {
		return nil, "no local process serves " + service
	}
	if released != nil {
		select {
		case <-released:
		case <-ctx.Done(): // the API server or Close has closed the connection
		}
	}
	process, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", local)
	if err != nil {
		return nil, fmt.Sprintf("no server answers at %s, which serves %s: does the operator run?", local, service)
	}
	if !r.keep(process) {
		process.Close()
		return nil, "the egress socket is being closed"
	}
	return process, ""
}

// copyThenClose copies until the end of from, and then closes the write side of to.
func copyThenClose(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok {
		to.Close()
		return
	}
	_ = half.CloseWrite() // the other side may have disconnected
}

// keep records a connection, so that Close closes it, too.
func (r *Router) keep(connection net.Conn) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		return false
	}
	r.open[connection] = struct{}{}
	return true
}

func (r *Router) forget(connection net.Conn) {
	r.mutex.Lock()
	delete(r.open, connection)
	r.mutex.Unlock()
	connection.Close()
}
