// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"

	"k8s.io/client-go/transport"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/scripts/checks/reach"
)

// asker asks the server past the API server.
type asker struct {
	client *http.Client
	host   string
}

// admin are the headers by which the front proxy says that an administrator asks.
var admin = as("admin", "system:masters")

// as are the headers of a user and of groups.
func as(user string, groups ...string) []string {
	headers := []string{"X-Remote-User", user}
	for _, group := range groups {
		headers = append(headers, "X-Remote-Group", group)
	}
	return headers
}

func (a asker) send(ctx context.Context, method, path string, body any, headers ...string) answer {
	return sendBy(ctx, a.client, a.host, method, path, body, headers...)
}

// direct says that the server can be asked past the API server.
func (v visit) direct() bool { return v.Server.URL != "" || v.Server.Service != "" }

// proxy asks as the front proxy does. It is not there where the cluster, or the server's address, is not ours.
func (v visit) proxy() (asker, bool) {
	v.t.Helper()
	if !v.direct() || v.Server.FrontProxyCert == "" {
		return asker{}, false
	}
	certificate, err := tls.LoadX509KeyPair(v.Server.FrontProxyCert, v.Server.FrontProxyKey)
	v.OK(v.t, "reading the front proxy's certificate", err)
	return v.asker(&certificate), true
}

// asker asks with a client certificate, or without one.
func (v visit) asker(certificate *tls.Certificate) asker {
	v.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(v.Server.CA))
	config := &tls.Config{RootCAs: roots, ServerName: v.Server.Name, MinVersion: tls.VersionTLS12}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	round := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	v.t.Cleanup(round.CloseIdleConnections)
	host := v.Server.URL
	if host == "" {
		host = "https://" + v.Server.Name
		round.DialContext = v.forward
	}
	return asker{client: &http.Client{Transport: transport.NewUserAgentRoundTripper("operator-labs-checks", round)}, host: host}
}

// forward connects to a Pod of the server.
func (v visit) forward(ctx context.Context, network, _ string) (net.Conn, error) {
	way, err := reach.Service(ctx, v.Config, v.Server.Namespace, v.Server.Service, v.Server.Port)
	if err != nil {
		return nil, err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, network, way.Address)
	if err != nil {
		way.Close()
		return nil, err
	}
	return &forwarded{Conn: connection, way: way}, nil
}

// forwarded is a connection that ends its way with itself.
type forwarded struct {
	net.Conn
	way  *reach.Way
	once sync.Once
}

func (f *forwarded) Close() error {
	err := f.Conn.Close()
	f.once.Do(f.way.Close)
	return err
}

// stranger is a certificate with the front proxy's name, of an authority that nobody knows.
func stranger(name string) (*tls.Certificate, error) {
	ca, err := certificates.NewAuthority("operator-labs-nobody")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Client(name)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	return &certificate, err
}
