// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
)

func TestSessionAffinity(t *testing.T) {
	w := newWorld(t, "client", "stranger", "one", "two", "three")
	route := Route{
		Name:      "web",
		Frontends: []Frontend{web},
		Backends:  w.backends("one", "two", "three"),
		Affinity:  time.Hour,
	}
	w.apply(planOf(route))
	keeps := func(from string) string {
		t.Helper()
		first, _, err := w.ask(from, "tcp", "10.96.0.7:80")
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if pod, _, err := w.ask(from, "tcp", "10.96.0.7:80"); err != nil || pod != first {
				t.Fatalf("the first connection reached %s, a later one reached %q, %v", first, pod, err)
			}
		}
		return first
	}
	first := keeps("client")
	keeps("stranger")
	keeps("")

	// New Pods change nothing.
	w.attach("four")
	route.Backends = w.backends("one", "two", "three", "four")
	w.apply(planOf(route))
	if again := keeps("client"); again != first {
		t.Errorf("the client reached %s, and %s after a Pod was added", first, again)
	}
	// The client's Pod is removed, and forgotten.
	route.Backends = slices.DeleteFunc(slices.Clone(route.Backends), func(backend netip.AddrPort) bool {
		return backend.Addr() == w.pods[first].Address
	})
	w.apply(planOf(route))
	if again := keeps("client"); again == first {
		t.Error("the client reached a removed backend")
	}
	// Without affinity, the client is no longer bound to a Pod.
	route.Affinity = 0
	w.apply(planOf(route))
	reached := map[string]bool{}
	for range 40 {
		pod, _, err := w.ask("client", "tcp", "10.96.0.7:80")
		if err != nil {
			t.Fatal(err)
		}
		reached[pod] = true
	}
	if len(reached) != 3 {
		t.Errorf("without affinity, the client reached %v, want 3 Pods", reached)
	}
	w.apply(Plan{})
	if left := w.contents(); left != w.emptyContents() {
		t.Errorf("these rules remain:\n%s", left)
	}
}

func TestConnectionRenewsAffinity(t *testing.T) {
	w := newWorld(t, "client", "one")
	route := Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("one"), Affinity: time.Hour}
	w.apply(planOf(route))
	// left returns how long the affinity lasts after a connection, and how much of it can have passed since the
	// connection.
	left := func() (left, passed time.Duration) {
		t.Helper()
		began := time.Now()
		if _, _, err := w.ask("client", "tcp", "10.96.0.7:80"); err != nil {
			t.Fatal(err)
		}
		known, err := w.kernel.conn.GetSetElements(w.kernel.clients(route, route.Backends[0]))
		if err != nil || len(known) != 1 {
			t.Fatalf("affinity entries = %v, %v; want 1", known, err)
		}
		return known[0].Expires, time.Since(began)
	}
	_, _ = left()
	<-time.After(time.Second)
	const granularity = 50 * time.Millisecond
	if second, passed := left(); second < time.Hour-passed-granularity {
		t.Errorf("a second after the first connection, and %s after the second one began, "+
			"%s of the hour are left", passed, second)
	}
}

func TestAffinityExpires(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	w.apply(planOf(Route{
		Name:      "web",
		Frontends: []Frontend{web},
		Backends:  w.backends("one", "two"),
		Affinity:  time.Second,
	}))
	if _, _, err := w.ask("client", "tcp", "10.96.0.7:80"); err != nil {
		t.Fatal(err)
	}
	var clients []*nftables.Set
	for _, backend := range w.backends("one", "two") {
		clients = append(clients, w.kernel.clients(Route{Name: "web"}, backend))
	}
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		var known []nftables.SetElement
		for _, set := range clients {
			elements, err := w.kernel.conn.GetSetElements(set)
			if err != nil {
				t.Fatal(err)
			}
			known = append(known, elements...)
		}
		if len(known) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the affinity has not expired: %v", known)
		}
	}
}
