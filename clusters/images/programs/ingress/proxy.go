// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// proxy forwards requests to the backends of a table.
type proxy struct {
	// table returns the newest table.
	table func() *Table
	// unknown is the certificate for hosts for which no Ingress has one. With it, an HTTPS client gets an answer with that
	// reason, instead of none.
	unknown *tls.Certificate
	// backends sends requests to Services. Each request opens a connection of its own, so that the Service selects a Pod
	// for it. A connection that is kept open stays with one Pod. The proxy of the environment is not used, because
	// Services are in the cluster.
	backends http.RoundTripper
}

func newProxy(table func() *Table) (*proxy, error) {
	unknown, err := selfSigned("no Ingress has a certificate for this name")
	return &proxy{table: table, unknown: unknown, backends: &http.Transport{DisableKeepAlives: true}}, err
}

// ServeHTTP answers 404 if no Ingress matches the request, 503 if the Service that the Ingress names does not exist,
// and 502 if the Service does not answer.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := hostOf(r)
	to, found := p.table().find(host, r.URL.Path)
	switch {
	case !found:
		http.Error(w, fmt.Sprintf("no Ingress names %s%s", host, r.URL.Path), http.StatusNotFound)
	case to.url == nil:
		http.Error(w, to.missing, http.StatusServiceUnavailable)
	default:
		leading := httputil.ReverseProxy{
			Transport: p.backends,
			Rewrite: func(out *httputil.ProxyRequest) {
				out.SetURL(to.url)
				out.Out.Host = out.In.Host // the name that the browser knows
				out.SetXForwarded()
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				ctrl.Log.Error(err, "a Service does not answer", "host", host, "path", r.URL.Path, "service", to.url.String())
				http.Error(w, "the Service does not answer: "+err.Error(), http.StatusBadGateway)
			},
		}
		leading.ServeHTTP(w, r)
	}
}

// hostOf returns the host of a request in lower case, without a port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// certificate is called for each connection, so a renewed certificate is served from the next one on.
func (p *proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if found := p.table().certificate(strings.ToLower(hello.ServerName)); found != nil {
		return found, nil
	}
	return p.unknown, nil
}

// selfSigned creates a certificate that no client trusts.
func selfSigned(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
