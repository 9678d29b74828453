// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package byhand

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/checks/reach"
)

// These are the names of the add-on pebble in a cluster.
const (
	pebble         = "pebble" // the namespace and the Service
	acmePort       = 14000
	managementPort = 15000
	authority      = "pebble-ca" // the ConfigMap with the CA of Pebble's own certificate
	authorityFile  = "ca.crt"

	// Directory is the URL of Pebble's directory within the cluster.
	Directory = "https://pebble.pebble.svc:14000/dir"
	rootURL   = "https://pebble.pebble.svc:15000/roots/0"
)

// Server is a connection from this machine to the cluster's ACME server.
type Server struct {
	// Client connects to the server, and trusts its certificate.
	Client *http.Client

	tunnels []*reach.Tunnel
}

// Connect connects to the cluster's Pebble. The caller closes the connection.
func Connect(ctx context.Context, config *rest.Config) (server *Server, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	signer, err := client.CoreV1().ConfigMaps(pebble).Get(ctx, authority, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading who signs Pebble's own certificate (is the add-on pebble installed?): %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(signer.Data[authorityFile])) {
		return nil, fmt.Errorf("the ConfigMap %s has no certificate in %s", authority, authorityFile)
	}
	s := &Server{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	addresses := map[string]string{}
	for _, port := range []int32{acmePort, managementPort} {
		tunnel, err := reach.Service(ctx, config, pebble, pebble, port)
		if err != nil {
			return nil, err
		}
		s.tunnels = append(s.tunnels, tunnel)
		addresses[fmt.Sprint(port)] = tunnel.Address
	}
	s.Client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, addresses[port])
		},
	}}
	return s, nil
}

// Close closes the connections to the server.
func (s *Server) Close() {
	if s.Client != nil {
		s.Client.CloseIdleConnections()
	}
	for _, tunnel := range s.tunnels {
		tunnel.Close()
	}
}

// Root returns the certificate of the CA with which the server issues certificates.
func (s *Server) Root(ctx context.Context) (*x509.Certificate, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking Pebble for its root: %w", err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("asking Pebble for its root: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("what Pebble gives as its root is no certificate in PEM")
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading Pebble's root: %w", err)
	}
	return root, nil
}
