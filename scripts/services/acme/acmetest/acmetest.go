// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package acmetest starts an ACME server for tests (Pebble, in the test's own process) and a site that serves the
// proofs. It is not part of the course's cluster.
package acmetest

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// Site serves proofs at their paths.
type Site map[string]string

func (s Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proof, ok := s[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, proof)
}

// Start starts an ACME server that looks for the proofs of all names at the site, and returns the URL of its directory.
func Start(t *testing.T, proofs http.Handler) (directory string, client *http.Client) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	web := httptest.NewServer(proofs)
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(web.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	logger := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	authority := ca.New(logger, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	validation := va.New(logger, number, 0, false, resolver(t), store)
	front := wfe.New(logger, store, validation, authority, []string{"pebble.example"}, false, false, 3, 5)
	server := httptest.NewTLSServer(front.Handler())
	t.Cleanup(server.Close)
	return server.URL + wfe.DirectoryPath, server.Client()
}

// resolver starts a name server that resolves every name to this machine. Pebble queries it over TCP.
func resolver(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: listener, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		if asked := question.Question[0]; asked.Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1),
			}}
		}
		_ = w.WriteMsg(answer) // a client that does not get it retries, or fails
	})}
	go func() { _ = server.ActivateAndServe() }() // ends with its listener
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}
