// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"lva.io/operators/scripts/acme"
)

// site answers challenges as somebody who has proofs for them.
type site map[string]string

func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proof, ok := s[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, proof)
}

// pebble starts an ACME server that looks for proofs at the site, whatever the name, and returns its directory.
func pebble(t *testing.T, proofs http.Handler) (directory string, client *http.Client) {
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

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var names = []string{"chocolate.example.test", "vanilla.example.test"}

// resolver is a name server for which every name is this machine. Pebble asks it over TCP.
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
		_ = w.WriteMsg(answer) // who does not get it asks again, or fails
	})}
	go func() { _ = server.ActivateAndServe() }() // ends with its listener
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestOrderForTwoNamesIsProvedByHand(t *testing.T) {
	ctx := limited(t)
	proofs := site{}
	directory, client := pebble(t, proofs)
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range order.Challenges {
		if proofs[c.Path()], err = account.KeyAuthorization(c.Token); err != nil {
			t.Fatal(err)
		}
	}
	authorizations, err := order.Validate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range authorizations {
		if a.Status != "valid" || a.Problem != "" {
			t.Errorf("%s is %s: %s", a.Name, a.Status, a.Problem)
		}
	}
	began := time.Now()
	chain, err := order.Finalize(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("finalized in %s", time.Since(began))
	slices.Sort(chain[0].DNSNames)
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(chain[0].DNSNames, want) {
		t.Errorf("the certificate is for %v, want %v", chain[0].DNSNames, want)
	}
	pool := x509.NewCertPool()
	pool.AddCert(chain[len(chain)-1])
	if len(chain) < 2 {
		t.Errorf("the chain has %d certificates, want the leaf's issuer as well", len(chain))
	}
}

func TestNameWithAWrongProofIsInvalidAndSaysWhy(t *testing.T) {
	ctx := limited(t)
	directory, client := pebble(t, site{})
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names[0])
	if err != nil {
		t.Fatal(err)
	}
	authorizations, err := order.Validate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := authorizations[0]; got.Status != "invalid" || !strings.Contains(got.Problem, "urn:ietf:params:acme:error:unauthorized") ||
		!strings.Contains(got.Problem, "404") {
		t.Errorf("the authorization is %+v, want an invalid one with the server's problem", got)
	}
	if _, err := order.Finalize(ctx); err == nil || !strings.Contains(err.Error(), "the order is invalid") {
		t.Errorf("finalizing an invalid order: %v, want an error that says so", err)
	}
}

func TestAccountAndOrderAreFoundAgain(t *testing.T) {
	ctx := limited(t)
	proofs := site{}
	directory, client := pebble(t, proofs)
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	key, err := account.Key()
	if err != nil {
		t.Fatal(err)
	}
	again, err := acme.Resume(ctx, directory, client, key)
	if err != nil {
		t.Fatal(err)
	}
	if again.URL != account.URL {
		t.Errorf("the account is %s, want %s", again.URL, account.URL)
	}
	opened, err := again.Open(ctx, order.URL)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range opened.Challenges {
		if c.Token != order.Challenges[i].Token || c.Name != order.Challenges[i].Name {
			t.Errorf("challenge %d is %s of %s, want %s of %s", i, c.Token, c.Name, order.Challenges[i].Token, order.Challenges[i].Name)
		}
		if proofs[c.Path()], err = again.KeyAuthorization(c.Token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := opened.Validate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Finalize(ctx); err != nil {
		t.Errorf("finalizing an order that was found again: %v", err)
	}
	if _, err := acme.Resume(ctx, directory, client, []byte("no key")); err == nil {
		t.Error("an account was opened without a key")
	}
}

func TestJWKIsWhatTheKeyAuthorizationIsMadeOf(t *testing.T) {
	ctx := limited(t)
	directory, client := pebble(t, site{})
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	content, err := account.JWK()
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]string
	if err := json.Unmarshal(content, &members); err != nil {
		t.Fatal(err)
	}
	proof, err := account.KeyAuthorization("token")
	if err != nil {
		t.Fatal(err)
	}
	if want := "token." + thumbprint(members); proof != want {
		t.Errorf("the key authorization is %s, want %s, by %s", proof, want, content)
	}
}
