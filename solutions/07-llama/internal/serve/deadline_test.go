// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/solutions/07-llama/api/v1alpha"
	"lva.io/operators/solutions/07-llama/internal/serve"
)

// pipes are connections in memory. In a synctest bubble an hour takes no time while all wait for one of them.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if connection, open := <-p; open {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// inMemory starts a server with a herd of 6 MB, more than any buffer between it and its client has room for. The
// channel says when a request has ended.
func inMemory(t *testing.T, protocols *http.Protocols) (client *http.Client, ended <-chan struct{}) {
	t.Helper()
	llamas, storage := herdOf(t)
	for i := range 24 {
		_, err := storage.Create(&v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("woolly-%d", i),
			Annotations: map[string]string{"wool": strings.Repeat("x", 250<<10)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := serve.New(v1alpha.GroupVersion, believer{}, llamas.Resource())
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan struct{}, 10)
	listener, serving := make(pipes), &http.Server{Protocols: protocols}
	serving.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { requests <- struct{}{} }()
		server.ServeHTTP(w, r)
	})
	go func() { _ = serving.Serve(listener) }()
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		listener <- there
		return here, nil
	}
	transport := &http.Transport{Protocols: protocols, DialContext: dial}
	t.Cleanup(func() {
		server.Stop()
		transport.CloseIdleConnections()
		_ = serving.Close()
	})
	return &http.Client{Transport: transport}, requests
}

// versions are those of HTTP.
func versions() map[string]*http.Protocols {
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	return map[string]*http.Protocols{"HTTP/1.1": one, "HTTP/2": two}
}

func TestAClientThatReadsNothingIsGivenUp(t *testing.T) {
	//lab:begin skip-deadline-test-1
	//lab:else
	// t.Skip("TODO(lab): remove this line when the server can do it")
	//lab:end
	for version, protocols := range versions() {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ended := inMemory(t, protocols)
				for _, path := range []string{"/llamas", "/llamas?watch=1"} {
					answer, err := client.Get("http://farm" + root + path)
					if err != nil {
						t.Fatal(err)
					}
					select {
					case <-ended:
					case <-time.After(10 * time.Minute): // less than the time of a watch
						t.Errorf("%s: after 10 minutes the server still waits for a client that reads nothing", path)
					}
					answer.Body.Close()
				}
			})
		})
	}
}

func TestAWatchIsNotGivenUp(t *testing.T) {
	//lab:begin skip-deadline-test-2
	//lab:else
	// t.Skip("TODO(lab): remove this line when the server can do it")
	//lab:end
	for version, protocols := range versions() {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := inMemory(t, protocols)
				watch := "http://farm" + root + "/llamas?watch=1&resourceVersion=26&timeoutSeconds=600"
				for _, query := range []string{"", "&allowWatchBookmarks=true"} { // one has nothing to write for ten minutes
					began := time.Now()
					answer, err := client.Get(watch + query)
					if err != nil {
						t.Fatal(err)
					}
					_, err = io.Copy(io.Discard, answer.Body)
					if took := time.Since(began); err != nil || took != 10*time.Minute {
						t.Errorf("a watch of 10 minutes%s ends after %s: %v", query, took, err)
					}
					answer.Body.Close()
				}
			})
		})
	}
}
