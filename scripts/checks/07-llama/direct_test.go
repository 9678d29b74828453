// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/scripts/checks/reach"
)

// asker sends requests directly to the server, and not through the API server.
type asker struct {
	client *http.Client
	host   string
}

// admin holds the headers with which the front proxy identifies an administrator.
var admin = as("admin", "system:masters")

// as returns the headers of a user and of groups.
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

// direct reports whether requests can be sent directly to the server.
func (v visit) direct() bool { return v.Server.URL != "" || v.Server.Service != "" }

// proxy returns an asker that acts as the front proxy. It reports false if the cluster, or the server's address, is not
// ours.
func (v visit) proxy() (asker, bool) {
	v.t.Helper()
	over, ok := v.proxyTransport()
	if !ok {
		return asker{}, false
	}
	return v.askerOver(over), true
}

// proxyTransport is transport with the front proxy's certificate. It reports false if proxy does.
func (v visit) proxyTransport() (*http.Transport, bool) {
	v.t.Helper()
	if !v.direct() || v.Server.FrontProxyCert == "" {
		return nil, false
	}
	certificate, err := tls.LoadX509KeyPair(v.Server.FrontProxyCert, v.Server.FrontProxyKey)
	v.OK(v.t, "reading the front proxy's certificate", err)
	return v.transport(&certificate), true
}

// asker returns an asker with a client certificate, or without one.
func (v visit) asker(certificate *tls.Certificate) asker {
	v.t.Helper()
	return v.askerOver(v.transport(certificate))
}

// transport sends requests to the server, with a client certificate or without one.
func (v visit) transport(certificate *tls.Certificate) *http.Transport {
	v.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(v.Server.CA))
	config := &tls.Config{RootCAs: roots, ServerName: v.Server.Name, MinVersion: tls.VersionTLS12}
	if certificate != nil {
		// Without this function, the certificate would not be sent to a server that requests one of another authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	round := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	v.t.Cleanup(round.CloseIdleConnections)
	if v.Server.URL == "" {
		round.DialContext = v.forward
	}
	return round
}

// askerOver returns an asker that uses a transport.
func (v visit) askerOver(round *http.Transport) asker {
	host := v.Server.URL
	if host == "" {
		host = "https://" + v.Server.Name
	}
	return asker{
		client: &http.Client{Transport: transport.NewUserAgentRoundTripper("operator-labs-checks", round)},
		host:   host,
	}
}

// forward connects to a Pod of the server.
func (v visit) forward(ctx context.Context, network, _ string) (net.Conn, error) {
	tunnel, err := reach.Service(ctx, v.Config, v.Server.Namespace, v.Server.Service, v.Server.Port)
	if err != nil {
		return nil, err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, network, tunnel.Address)
	if err != nil {
		tunnel.Close()
		return nil, err
	}
	return &forwarded{Conn: connection, tunnel: tunnel}, nil
}

// forwarded is a connection that closes its tunnel when it is closed.
type forwarded struct {
	net.Conn
	tunnel *reach.Tunnel
	once   sync.Once
}

func (f *forwarded) Close() error {
	err := f.Conn.Close()
	f.once.Do(f.tunnel.Close)
	return err
}

// impostor is a client with a certificate that is not the front proxy's.
type impostor struct {
	what        string // follows "with"
	certificate *tls.Certificate
}

// impostors returns clients that have everything of the front proxy except its key: its name, and its certificate,
// which each server that it connects to can read. One has a certificate of a user.
func (v visit) impostors(name string) []impostor {
	v.t.Helper()
	ca, err := certificates.NewAuthority("operator-labs-nobody")
	v.OK(v.t, "making a certificate authority", err)
	pair, err := ca.Client(name)
	v.OK(v.t, "making a certificate", err)
	alone, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	v.OK(v.t, "making a certificate", err)
	block, _ := pem.Decode(ca.PEM)
	followedBy := func(others ...[]byte) *tls.Certificate {
		return &tls.Certificate{Certificate: append([][]byte{alone.Certificate[0]}, others...), PrivateKey: alone.PrivateKey}
	}
	const unknown = "a certificate of an unknown authority in the name of the front proxy"
	all := []impostor{
		{unknown, &alone},
		{unknown + ", followed by the certificate of that authority", followedBy(block.Bytes)},
	}
	if v.Server.FrontProxyCert != "" {
		own, err := tls.LoadX509KeyPair(v.Server.FrontProxyCert, v.Server.FrontProxyKey)
		v.OK(v.t, "reading the front proxy's certificate", err)
		all = append(all, impostor{
			unknown + ", followed by the front proxy's own certificate without its key",
			followedBy(own.Certificate...),
		})
	}
	// A configuration without a client certificate uses a token.
	if user, err := rest.TLSConfigFor(v.Config); err == nil && user != nil && user.GetClientCertificate != nil {
		if certificate, err := user.GetClientCertificate(nil); err == nil &&
			certificate != nil && len(certificate.Certificate) > 0 {
			all = append(all, impostor{"a user's certificate, of the cluster's authority for users", certificate})
		}
	}
	return all
}

// directly returns a function that sends requests of an administrator directly to the server if that is possible, and
// otherwise through the API server.
func (v visit) directly() func(method, path string, body any, headers ...string) answer {
	v.t.Helper()
	p, ok := v.proxy()
	return func(method, path string, body any, headers ...string) answer {
		if !ok {
			return v.send(v.ctx, method, path, body, headers...)
		}
		return p.send(v.ctx, method, path, body, append(slices.Clone(admin), headers...)...)
	}
}

// atOnce sends requests at the same time, and returns their answers.
func atOnce(count int, ask func(i int) answer) []answer {
	answers := make([]answer, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { answers[i] = ask(i) })
	}
	group.Wait()
	return answers
}

// counted lists the codes of answers, with their counts.
func counted(answers []answer) string {
	counts := map[string]int{}
	for _, a := range answers {
		code := "no answer"
		if a.err == nil {
			code = fmt.Sprintf("%d %s", a.code, http.StatusText(a.code))
		}
		counts[code]++
	}
	var words []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d times %s", counts[code], code))
	}
	return strings.Join(words, ", ")
}
