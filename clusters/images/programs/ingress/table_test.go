// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// to returns a backend that is identified by its name.
func to(name string) backend { return backend{url: &url.URL{Scheme: "http", Host: name}} }

func TestRequestSelectsService(t *testing.T) {
	t.Parallel()
	exact, prefix, specific := networkingv1.PathTypeExact, networkingv1.PathTypePrefix,
		networkingv1.PathTypeImplementationSpecific
	table := newTable()
	table.add("shop.lab.test", "/", &prefix, to("page"))
	table.add("shop.lab.test", "/cart", &prefix, to("cart"))
	table.add("shop.lab.test", "/cart/", &prefix, to("the same, added later"))
	table.add("shop.lab.test", "/about", &exact, to("about"))
	table.add("shop.lab.test", "/.well-known/acme-challenge/token", &specific, to("solver"))
	table.add("*.lab.test", "", nil, to("wildcard"))
	table.add("", "/health", &prefix, to("every host"))
	table.sort()
	for _, test := range []struct{ name, host, path, want string }{
		{"the page", "shop.lab.test", "/", "page"},
		{"a page below it", "shop.lab.test", "/a/b", "page"},
		{"the longest prefix wins", "shop.lab.test", "/cart/1", "cart"},
		{"a prefix matches itself", "shop.lab.test", "/cart", "cart"},
		{"elements are compared, not letters", "shop.lab.test", "/carton", "page"},
		{"an exact path", "shop.lab.test", "/about", "about"},
		{"an exact path matches nothing below it", "shop.lab.test", "/about/us", "page"},
		{"the solver's path beside the page's", "shop.lab.test", "/.well-known/acme-challenge/token", "solver"},
		{"another token", "shop.lab.test", "/.well-known/acme-challenge/other", "page"},
		{"a wildcard", "other.lab.test", "/health", "wildcard"},
		{"a wildcard matches one label", "a.other.lab.test", "/x", ""},
		{"a wildcard needs a label", "lab.test", "/x", ""},
		{"every host", "example.com", "/health/live", "every host"},
		{"no rule", "example.com", "/", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, found := table.find(test.host, test.path)
			if found != (test.want != "") || found && got.url.Host != test.want {
				t.Errorf("find(%s, %s) = %v, %v, want %q", test.host, test.path, got.url, found, test.want)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Was-Asked", r.Host+" "+r.URL.Path+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(shop.Close)
	address, err := url.Parse(shop.URL)
	if err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	closed, err := url.Parse(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	table := newTable()
	table.add("shop.lab.test", "/", nil, backend{url: address})
	table.add("down.lab.test", "/", nil, backend{url: closed})
	table.add("empty.lab.test", "/", nil, backend{missing: "there is no Service web"})
	p, err := newProxy(func() *Table { return table })
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, url string
		code      int
		want      string
	}{
		{
			"the Service gets the browser's host and path", "http://shop.lab.test/cart", http.StatusOK,
			"shop.lab.test /cart http",
		},
		{
			"a port and capitals do not matter", "http://SHOP.lab.test:8080/cart", http.StatusOK,
			"SHOP.lab.test:8080 /cart http",
		},
		{"no Ingress", "http://example.com/x", http.StatusNotFound, "no Ingress names example.com/x"},
		{"no Service", "http://empty.lab.test/", http.StatusServiceUnavailable, "there is no Service web"},
		{"no server listens", "http://down.lab.test/", http.StatusBadGateway, "the Service does not answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			p.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, test.url, nil))
			response := answer.Header().Get("X-Was-Asked") + answer.Body.String()
			if answer.Code != test.code || !strings.Contains(response, test.want) {
				t.Errorf("%d %q, want %d %q", answer.Code, response, test.code, test.want)
			}
		})
	}
}

// A Service selects a Pod for each connection. A connection that is kept open would still reach a Pod that was replaced
// meanwhile.
func TestEachRequestOpensAConnection(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	shop := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	shop.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	shop.Start()
	t.Cleanup(shop.Close)
	address, err := url.Parse(shop.URL)
	if err != nil {
		t.Fatal(err)
	}
	table := newTable()
	table.add("shop.lab.test", "/", nil, backend{url: address})
	p, err := newProxy(func() *Table { return table })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://shop.lab.test/", nil))
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("three requests used %d connections", got)
	}
}
