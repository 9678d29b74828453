// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

var site = fstest.MapFS{
	"index.html":       {Data: []byte("<h1>Operator Labs</h1>")},
	"404.html":         {Data: []byte("<h1>No such page</h1>")},
	"lectures/02.html": {Data: []byte("<h1>Reconcile</h1>")},
	"assets/app.js":    {Data: []byte("export {}")},
}

func TestFilesAreServed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, holds, contentType string
		code                     int
	}{
		{"/", "Operator Labs", "text/html", http.StatusOK},
		{"/lectures/02.html", "Reconcile", "text/html", http.StatusOK},
		{"/assets/app.js", "export", "text/javascript", http.StatusOK},
		{"/lectures/99.html", "No such page", "text/html", http.StatusNotFound},
		{"/../../etc/passwd", "No such page", "text/html", http.StatusNotFound},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			handler(site).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.path, http.NoBody))
			if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.holds) || !strings.HasPrefix(answer.Header().Get("Content-Type"), c.contentType) {
				t.Errorf("got %d, %s:\n%s", answer.Code, answer.Header().Get("Content-Type"), answer.Body)
			}
		})
	}
}

func TestServeEndsWithTheContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, handler(site)) }()
	answer, err := http.Get("http://" + listener.Addr().String()) //nolint:noctx // it is our own server
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "Operator Labs") {
		t.Errorf("got %v: %s", err, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{":1", ":2"}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("got %v", err)
	}
}
