// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Table is the content of the Ingresses in the form in which each request looks it up. It is immutable: each change in
// the cluster produces a new table.
type Table struct {
	// routes are the routes of each host, as the rules of Ingresses name it: "shop.lab.test", "*.lab.test", or "" for
	// every host. If several routes match a path, the first one is used.
	routes map[string][]route
	// certificates are the certificates of each host, named as above.
	certificates map[string]*tls.Certificate
}

// route is one path of a rule.
type route struct {
	// path has no slash at its end, unless it is exact.
	path    string
	exact   bool
	backend backend
}

// backend is the destination of a request.
type backend struct {
	url *url.URL
	// missing is the reason why there is no URL.
	missing string
}

func newTable() *Table {
	return &Table{routes: map[string][]route{}, certificates: map[string]*tls.Certificate{}}
}

// add adds a path of a rule. A path without a type of its own matches as a prefix.
func (t *Table) add(host, path string, kind *networkingv1.PathType, to backend) {
	exact := kind != nil && *kind == networkingv1.PathTypeExact
	if !exact {
		path = strings.TrimSuffix(path, "/")
	}
	t.routes[host] = append(t.routes[host], route{path: path, exact: exact, backend: to})
}

// sort puts the routes in the order of their precedence: exact paths before prefixes, and long ones before short ones.
// Of two equal routes, the one of the older Ingress was added first, and stays first.
func (t *Table) sort() {
	for _, routes := range t.routes {
		slices.SortStableFunc(routes, func(a, b route) int {
			if a.exact != b.exact {
				return map[bool]int{true: -1, false: 1}[a.exact]
			}
			return len(b.path) - len(a.path)
		})
	}
}

// find returns the backend of a request, or false if no Ingress names it.
func (t *Table) find(host, path string) (backend, bool) {
	for _, name := range namesOf(host) {
		for _, route := range t.routes[name] {
			if route.matches(path) {
				return route.backend, true
			}
		}
	}
	return backend{}, false
}

// certificate returns the certificate for a host, or nil if no Ingress has one.
func (t *Table) certificate(host string) *tls.Certificate {
	for _, name := range namesOf(host) {
		if found := t.certificates[name]; found != nil {
			return found
		}
	}
	return nil
}

// namesOf returns the names by which rules may match a host: its own, a wildcard for its first label, and none.
// (https://kubernetes.io/docs/concepts/services-networking/ingress/#hostname-wildcards)
func namesOf(host string) []string {
	names := []string{host}
	if _, domain, found := strings.Cut(host, "."); found {
		names = append(names, "*."+domain)
	}
	return append(names, "")
}

// matches compares element by element: the prefix /a matches /a and /a/b, and does not match /ab.
func (r route) matches(path string) bool {
	if r.exact {
		return path == r.path
	}
	rest, found := strings.CutPrefix(path, r.path)
	return found && (rest == "" || rest[0] == '/')
}
