// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newRouter(t *testing.T, socket string) *Router {
	t.Helper()
	router, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
	})
	return router
}

// echo is a local process: it repeats its input until the other side has sent everything, then writes "over".
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
				_, _ = io.WriteString(connection, "over")
			}()
		}
	}()
	return listener.Addr().String()
}

// ask requests a connection as the API server does: from the folder of the socket, by its relative name.
func ask(t *testing.T, socket, question string) (connection *net.UnixConn, answer *http.Response, rest *bufio.Reader) {
	t.Helper()
	t.Chdir(filepath.Dir(socket))
	dialed, err := net.Dial("unix", filepath.Base(socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	if err := dialed.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(dialed, question+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(dialed)
	answer, err = http.ReadResponse(rest, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dialed.(*net.UnixConn), answer, rest
}

func TestConnectionReachesTheServer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "egress.sock")
	router := newRouter(t, socket)
	router.Route("10.96.0.7:443", "127.0.0.1:1")
	router.Route("10.96.0.7:443", echo(t)) // the later one counts
	connection, answer, rest := ask(t, socket, "CONNECT 10.96.0.7:443")
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("response status = %s", answer.Status)
	}
	// This is more than all buffers of the connection can hold.
	sent := strings.Repeat("vanilla ", 1<<17)
	go func() {
		_, _ = io.WriteString(connection, sent)
		_ = connection.CloseWrite()
	}()
	received, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	if string(received) != sent+"over" {
		t.Errorf("sent %d bytes and the end, received %d", len(sent), len(received))
	}
}

func TestStatusLineNamesTheError(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "egress.sock")
	router := newRouter(t, socket)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	router.Route("10.96.0.7:443", closed.Addr().String())
	for _, test := range []struct {
		question, want string
		code           int
	}{
		{"CONNECT 10.96.0.8:443", "502 no local process serves 10.96.0.8:443", http.StatusBadGateway},
		{"CONNECT 10.96.0.7:80", "502 no local process serves 10.96.0.7:80", http.StatusBadGateway},
		{
			"CONNECT 10.96.0.7:443", "502 no server answers at " + closed.Addr().String() +
				", which serves 10.96.0.7:443: does the operator run?",
			http.StatusBadGateway,
		},
		{"GET http://10.96.0.7:443/", "405 Method Not Allowed", http.StatusMethodNotAllowed},
	} {
		_, answer, _ := ask(t, socket, test.question)
		if answer.Status != test.want || answer.StatusCode != test.code {
			t.Errorf("%s: status = %q, want %q", test.question, answer.Status, test.want)
		}
	}
}

func TestCloseEndsConnectionsAndFreesTheSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "egress.sock")
	router := newRouter(t, socket)
	router.Route("10.96.0.7:443", echo(t))
	_, _, rest := ask(t, socket, "CONNECT 10.96.0.7:443")
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	if received, err := io.ReadAll(rest); len(received) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after Close = %q, %v", received, err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket still exists: %v", err)
	}
	again := newRouter(t, socket)
	// The first Router is closed twice. It must not remove the other's socket.
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	again.Route("10.96.0.7:443", echo(t))
	if _, answer, _ := ask(t, socket, "CONNECT 10.96.0.7:443"); answer.StatusCode != http.StatusOK {
		t.Errorf("the next Router: status = %s", answer.Status)
	}
}

func TestSecondListenerFails(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "egress.sock")
	router := newRouter(t, socket)
	router.Route("10.96.0.7:443", echo(t))
	if _, err := Listen(socket); !errors.Is(err, ErrTaken) {
		t.Errorf("the second Listen() error = %v", err)
	}
	if _, answer, _ := ask(t, socket, "CONNECT 10.96.0.7:443"); answer.StatusCode != http.StatusOK {
		t.Errorf("the first Router: status = %s", answer.Status)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "egress.sock")
	killed, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	killed.(*net.UnixListener).SetUnlinkOnClose(false)
	killed.Close()
	if _, err := net.Dial("unix", socket); err == nil {
		t.Fatal("another process listens")
	}
	router := newRouter(t, socket)
	router.Route("10.96.0.7:443", echo(t))
	if _, answer, _ := ask(t, socket, "CONNECT 10.96.0.7:443"); answer.StatusCode != http.StatusOK {
		t.Errorf("status = %s", answer.Status)
	}
}

func TestSocketInDeepFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "egress.sock")
	if listener, err := net.Listen("unix", socket); err == nil {
		listener.Close()
		t.Fatal("the socket's name is short enough for any program, so this test proves nothing")
	}
	router := newRouter(t, socket)
	router.Route("10.96.0.7:443", echo(t))
	if _, answer, _ := ask(t, socket, "CONNECT 10.96.0.7:443"); answer.StatusCode != http.StatusOK {
		t.Errorf("status = %s", answer.Status)
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestListenInMissingFolder(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), "gone", "egress.sock"))
	if err == nil || !strings.Contains(err.Error(), "locking the API server's egress socket: ") {
		t.Errorf("Listen() error = %v", err)
	}
}

func TestCloseEndsWaitForServerRestart(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "egress.sock")
	router := newRouter(t, socket)
	const local = "127.0.0.1:1"
	router.Route("10.96.0.7:443", local)
	defer router.Hold(local)()
	connection, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "CONNECT 10.96.0.7:443 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.ReadAll(connection) // either the end or an error is right
	}()
	select {
	case <-ended:
		t.Fatal("the connection did not wait")
	case <-time.After(50 * time.Millisecond): // a refusal takes less than a millisecond
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// A process that is being replaced does not listen for a moment. A client that connects then waits for its successor.
func TestConnectionWaitsForServerRestart(t *testing.T) {
	t.Parallel()
	router := newRouter(t, filepath.Join(t.TempDir(), "egress.sock"))
	old, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	local := old.Addr().String()
	router.Route("10.96.0.7:443", local)
	release := router.Hold(local)
	old.Close()
	refusals := make(chan string, 1)
	go func() {
		process, refusal := router.dial(t.Context(), "10.96.0.7:443")
		if process != nil {
			router.forget(process)
		}
		refusals <- refusal
	}()
	select {
	case refusal := <-refusals:
		t.Fatalf("no connection waited: %q", refusal)
	case <-time.After(50 * time.Millisecond): // a refusal takes less than a millisecond
	}
	next, err := net.Listen("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	release()
	release() // a second call does nothing
	if refusal := <-refusals; refusal != "" {
		t.Errorf("a waiting connection was refused: %s", refusal)
	}
}
