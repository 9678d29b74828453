// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// streams starts an API server whose answers do not end. They send nothing after a line, or a flood of bytes, which are
// counted in taken.
func streams(t *testing.T) (config *rest.Config, taken *atomic.Int64) {
	t.Helper()
	taken = &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "a cone\n")
		w.(http.Flusher).Flush()
		for flood := make([]byte, 1<<20); r.URL.Query().Has("flood"); {
			n, err := w.Write(flood)
			taken.Add(int64(n))
			if err != nil {
				return
			}
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, taken
}

func TestEndlessAnswerIsLostOnceItHasBegun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path string
		kind       Kind
		within     time.Duration
	}{
		{"a log that is followed", "/api/v1/namespaces/a/pods/b/log?follow=true", LostAnswer, answerTime},
		{"a crash after that", "/api/v1/namespaces/a/pods/b/log?follow=true", KillAfter, answerTime},
		{"a page behind a Service", "/api/v1/namespaces/a/services/b/proxy/", LostAnswer, patience},
		{"a crash after that", "/api/v1/namespaces/a/services/b/proxy/", KillAfter, patience},
		{"a flood", "/api/v1/namespaces/a/services/b/proxy/?flood=yes", LostAnswer, patience},
	} {
		t.Run(test.name+" "+string(test.kind), func(t *testing.T) {
			t.Parallel()
			config, taken := streams(t)
			var kills atomic.Int32
			injector := New(func() error { kills.Add(1); return nil })
			t.Cleanup(func() { injector.Close() })
			host, ca, err := injector.ProxyAPI(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := injector.Arm(Schedule{Faults: []Fault{{Kind: test.kind, Class: Read, At: 1}}}); err != nil {
				t.Fatal(err)
			}
			client := kubernetes.NewForConfigOrDie(&rest.Config{
				Host: host, BearerToken: injector.Exchange("token"), TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			})
			began := time.Now()
			content, err := client.CoreV1().RESTClient().Get().RequestURI(test.path).
				MaxRetries(0).Timeout(patience).DoRaw(t.Context())
			if took := time.Since(began); err == nil || len(content) > 0 || took >= test.within {
				t.Errorf("after %s: got %q, error = %v", took, content, err)
			}
			if got := injector.Log()[0]; got.Code != http.StatusOK || got.Fault != test.kind {
				t.Errorf("unexpected log entry: %+v", got)
			}
			if want := map[Kind]int32{KillAfter: 1}[test.kind]; kills.Load() != want {
				t.Errorf("the operator was killed %d times, want %d", kills.Load(), want)
			}
			if most := int64(2 * answerLimit); taken.Load() > most {
				t.Errorf("%d bytes were read of a lost answer, want at most %d", taken.Load(), most)
			}
		})
	}
}
