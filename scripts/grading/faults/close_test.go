// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ownPackages matches the stacks of an injector's goroutines, and of those of servers and clients that only injectors
// use in these tests.
var ownPackages = regexp.MustCompile(`scripts/grading/faults\.\(\*|net/http\.\(\*(conn|Server|http2serverConn)\)|httputil\.`)

func leaked() []string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if ownPackages.MatchString(stack) && !strings.Contains(stack, "faults.leaked(") {
			found = append(found, stack)
		}
	}
	return found
}

// Not parallel: goroutines of other tests look the same.
func TestCloseEndsEverything(t *testing.T) {
	dying := newKilled()
	b := newBench(t, dying.kill)
	b.create(t, "x")
	client := b.client(t)
	open := follow(t, client, b.namespace)
	next(t, open, "ADDED x=")
	// Every fault that lasts, each at a write of its own, and a connection on which neither side ever writes.
	schedule := []Fault{
		{Kind: NoAnswer, Class: Write, At: 1},
		{Kind: Slow, Class: Write, At: 2, For: lasting(long)},
		{Kind: Stale, Class: Write, At: 3, For: lasting(long)},
		{Kind: NoAnswer, Class: Write, At: 1, Service: "freezer"},
		{Kind: KillAfter, Class: Write, At: 5},
	}
	b.arm(t, schedule...)
	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.operator.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	errs := make(chan error, 5)
	patch := func() {
		_, err := client.CoreV1().ConfigMaps(b.namespace).Patch(context.WithoutCancel(t.Context()), "x",
			"application/merge-patch+json", []byte(`{"data":{"value":"1"}}`), metav1.PatchOptions{})
		errs <- err
	}
	arrived := func(writes int) {
		eventually(t, "it has arrived", func() bool {
			log := b.Log()
			return log[len(log)-1].Number == writes
		})
	}
	go patch()
	arrived(1)
	go patch()
	arrived(2)
	go patch()
	arrived(3)
	if err := <-errs; err != nil {
		t.Fatal(err) // the third one is only stale
	}
	go func() {
		_, err := b.freezer.Book(context.WithoutCancel(t.Context()), take("one"))
		errs <- err
	}()
	arrived(4)
	go patch()
	<-dying.begins

	closed := make(chan struct{})
	go func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		close(closed)
	}()
	eventually(t, "it begins to close", func() bool {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		return b.closed
	})
	dying.dead <- nil // Close waits only for the kill
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatalf("Close() hangs; remaining goroutines:\n%s", strings.Join(leaked(), "\n\n"))
	}
	for range 4 {
		if err := <-errs; err == nil {
			t.Error("Close() answered a request")
		}
	}
	for range open { // the watch ends, too
	}
	if _, err := client.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Error("the closed injector still answers")
	}
	if _, _, err := b.ProxyAPI(cluster.Config()); !errors.Is(err, errClosed) {
		t.Errorf("ProxyAPI() after Close: error = %v", err)
	}
	if log := b.Log(); len(log) < 6 {
		t.Errorf("the log after Close is incomplete: %v", log)
	}
	b.Disarm()
	b.Note("killed")
	if err := errors.Join(b.Close(), b.past.Close()); err != nil {
		t.Errorf("second Close() error = %v", err)
	}
	// The servers' own goroutines end a moment later.
	eventually(t, "nothing of it is left", func() bool {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if stacks := leaked(); len(stacks) > 0 {
			t.Log(strings.Join(stacks, "\n\n"))
			return false
		}
		return len(b.connections) == 0 && len(b.watches) == 0
	})
}

// The test uses a server that counts its connections, because the API server that all tests share has those of other
// tests as well.
func TestCloseEndsTheConnectionsToTheAPIServer(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	connections, protocol := 0, ""
	open := func() int { mutex.Lock(); defer mutex.Unlock(); return connections }
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		protocol = r.Proto
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mutex.Lock()
		defer mutex.Unlock()
		switch state {
		case http.StateNew:
			connections++
		case http.StateClosed:
			connections--
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	injector := New(nil)
	host, ca, err := injector.ProxyAPI(&rest.Config{
		Host:            server.URL,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(&rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), client, http.MethodGet, host+"/version"); err != nil {
		t.Fatal(err)
	}
	if got := open(); got != 1 || protocol != "HTTP/2.0" {
		t.Errorf("the injector has %d connections with the protocol %s, want 1 with HTTP/2.0", got, protocol)
	}
	if err := injector.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "its connections are closed", func() bool { return open() == 0 })
}
