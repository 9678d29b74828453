// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/byhand"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
	"lva.io/operators/scripts/checks/reach"
	"lva.io/operators/scripts/services/acme"
)

const (
	// readyLimit is the time limit for Pods and for a tunnel to them. issueLimit is the time limit for a certificate by
	// HTTP-01: cert-manager's self-check alone takes 8 s.
	readyLimit = 40 * time.Second
	issueLimit = 60 * time.Second
	// requestLimit is the time limit for one request through the Ingress.
	requestLimit = 5 * time.Second
	// bodyLimit is how many bytes of a page are read.
	bodyLimit = 64 << 10
)

type sceneKey struct{}

// scene is the state that all checks examine.
type scene struct {
	*deployed.Cluster
	suite   *check.Suite
	objects []*unstructured.Unstructured // the submission's
	// refused holds the submission's objects that the API server has refused, with its answers.
	refused map[string]error

	server  *byhand.Server
	account *acme.Account
	order   *acme.Order
	roots   *x509.CertPool

	record *record
	cases  *cases
}

// open creates all orders at once: the one by hand, those of the submission's own manifests, and the cases of the
// detective.
func open(ctx context.Context, suite *check.Suite) (context.Context, error) {
	cluster, err := deployed.Open(suite)
	if err != nil {
		return nil, err
	}
	s := &scene{Cluster: cluster, suite: suite, refused: map[string]error{}}
	if s.objects, err = deployed.Manifests(suite); err != nil {
		return nil, err
	}
	if s.record, err = watch(ctx, suite, cluster.Dynamic); err != nil {
		return nil, err
	}
	if s.server, err = byhand.Connect(ctx, suite.Config); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, s.server.Close)
	root, err := s.server.Root(ctx)
	if err != nil {
		return nil, err
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(root)
	if s.cases, err = openCases(ctx, s); err != nil {
		return nil, err
	}
	// The order must exist before the site that proves it, because a Pod mounts its files at its start.
	if s.account, s.order, err = byhand.Place(ctx,
		cluster.Client, byhand.Directory, s.server.Client, byhand.Names...); err != nil {
		return nil, err
	}
	for _, object := range s.objects {
		err := cluster.Apply(ctx, object)
		if refusal, is := errors.AsType[*deployed.RefusedError](err); is {
			s.refused[object.GetKind()] = refusal
		} else if err != nil {
			return nil, err
		}
	}
	return context.WithValue(ctx, sceneKey{}, s), nil
}

// answer is the result of a request. status is 0 if there was no answer, and then problem is the reason.
type answer struct {
	status  int
	body    string
	problem string
	chain   []*x509.Certificate
}

func (a answer) String() string {
	if a.status == 0 {
		return a.problem
	}
	return fmt.Sprintf("the status is %d, and the body %q", a.status, a.body[:min(len(a.body), 160)])
}

// ask requests a page through the cluster's Ingress controller, whatever the name in the URL resolves to here. An HTTPS
// server must have a certificate for the name that Pebble has issued.
func (s *scene) ask(ctx context.Context, url string) answer {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	port := int32(80)
	if len(url) > 5 && url[:5] == "https" {
		port = 443
	}
	tunnel, err := reach.Service(ctx, s.Config, "ingress", "ingress", port)
	if err != nil {
		return answer{problem: err.Error()}
	}
	defer tunnel.Close()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, tunnel.Address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{problem: err.Error()}
	}
	got, err := client.Do(request)
	if err != nil {
		return answer{problem: err.Error()}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, bodyLimit))
	if err != nil {
		return answer{problem: err.Error()}
	}
	a := answer{status: got.StatusCode, body: string(body)}
	if got.TLS != nil {
		a.chain = got.TLS.PeerCertificates
	}
	return a
}

// eventually repeats a request until the answer is good, and fails the check if it never is.
func (v visit) eventually(limit time.Duration, url, expected string, good func(answer) bool) answer {
	v.t.Helper()
	var last answer
	err := await.Within(v.ctx, limit, deployed.Poll, url, func(ctx context.Context) (string, error) {
		got := v.ask(ctx, url)
		// A request that was cut off by the end of the wait reveals nothing about the site.
		if ctx.Err() == nil || last.String() == "" {
			last = got
		}
		if good(got) {
			return "", nil
		}
		return last.String(), nil
	})
	if err != nil {
		v.Fail(v.t, expected, fmt.Sprintf("%s: %s", url, last), v.evidence()...)
	}
	return last
}

// evidence returns the logs of the submission's Pods.
func (v visit) evidence() []string {
	lines := []string{}
	for _, object := range deployed.Of(v.objects, "Deployment") {
		if deployment, err := deployed.Deployment(object); err == nil {
			lines = append(lines, v.Cluster.Evidence(v.ctx, deployment)...)
		}
	}
	if len(lines) == 0 {
		return []string{"config/default has no Deployment"}
	}
	return lines
}

// accepted fails the check if the API server has refused objects of these kinds, or there are none.
func (v visit) accepted(expected string, kinds ...string) {
	v.t.Helper()
	for _, kind := range kinds {
		if err := v.refused[kind]; err != nil {
			v.Fail(v.t, expected, err.Error(), "none")
		}
		if len(deployed.Of(v.objects, kind)) == 0 {
			v.Fail(v.t, expected, "config/default has no "+kind, "none")
		}
	}
}
