// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// cluster is a client of the Kubernetes API server.
type cluster struct {
	base      string
	token     string
	tokenFile string
	client    *http.Client

	mutex sync.Mutex
	front *frontProxy
	asked time.Time
}

// frontProxy identifies the proxy that may name the users of requests.
type frontProxy struct {
	authority *x509.CertPool
	names     []string
}

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// field finds the first value of a field in a kubeconfig that has one cluster and one user, as ours have.
func field(content []byte, name string) string {
	found := regexp.MustCompile(`(?m)^[ -]*` + name + `:[ \t]*"?([^"\n]+?)"?[ \t]*$`).FindSubmatch(content)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// material returns a certificate or key of a kubeconfig, which contains it or names its file.
func material(content []byte, name string) ([]byte, error) {
	if inline := field(content, name+"-data"); inline != "" {
		return base64.StdEncoding.DecodeString(inline)
	}
	if file := field(content, name); file != "" {
		return os.ReadFile(file)
	}
	return nil, nil
}

func connect(kubeconfig string) (*cluster, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	c := &cluster{client: &http.Client{Transport: &http.Transport{TLSClientConfig: trust, MaxIdleConnsPerHost: 50}}}
	if kubeconfig == "" {
		c.base = "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT")
		c.tokenFile = account + "token"
		authority, err := os.ReadFile(account + "ca.crt")
		trust.RootCAs.AppendCertsFromPEM(authority)
		return c, err
	}
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	authority, err := material(content, "certificate-authority")
	if err != nil {
		return nil, err
	}
	trust.RootCAs.AppendCertsFromPEM(authority)
	certificate, err := material(content, "client-certificate")
	if err != nil {
		return nil, err
	}
	key, err := material(content, "client-key")
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		trust.Certificates = []tls.Certificate{pair}
	}
	c.base, c.token, c.tokenFile =
		strings.TrimRight(field(content, "server"), "/"), field(content, "token"), field(content, "tokenFile")
	return c, nil
}

// ask sends a request. The caller closes the answer's body. A status other than 2xx is an error.
func (c *cluster) ask(ctx context.Context, method, path string, body object) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(encode(body))
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, err
	}
	token := c.token
	if c.tokenFile != "" {
		fresh, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(fresh))
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return nil, errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, response.Status, said), response.Body.Close())
	}
	return response, nil
}

func (c *cluster) read(ctx context.Context, method, path string, body object) (object, error) {
	response, err := c.ask(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return decode(response.Body)
}

// whoMayVouch reads the authority of the front proxy, at most once a second.
func (c *cluster) whoMayVouch(ctx context.Context) (*frontProxy, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.front != nil && time.Since(c.asked) < time.Second {
		return c.front, nil
	}
	found, err := c.read(ctx, http.MethodGet,
		"/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", nil)
	if err != nil {
		return nil, err
	}
	data := found.at("data")
	front := &frontProxy{authority: x509.NewCertPool()}
	if !front.authority.AppendCertsFromPEM([]byte(data.text("requestheader-client-ca-file"))) {
		return nil, errors.New("the cluster does not say who its front proxy is")
	}
	if err := json.Unmarshal([]byte(data.text("requestheader-allowed-names")), &front.names); err != nil {
		return nil, err
	}
	c.front, c.asked = front, time.Now()
	return front, nil
}

// user is the user who sent a request.
type user struct {
	name   string
	groups []string
	extra  map[string][]string
}

// who returns the user who sent a request. The error explains why the request is not trusted.
func (c *cluster) who(r *http.Request) (*user, error) {
	if len(r.TLS.PeerCertificates) == 0 {
		return nil, errors.New("no client certificate")
	}
	front, err := c.whoMayVouch(r.Context())
	if err != nil {
		return nil, err
	}
	leaf := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: front.authority, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return nil, err
	}
	if len(front.names) > 0 && !slices.Contains(front.names, leaf.Subject.CommonName) {
		return nil, fmt.Errorf("%s is not the front proxy", leaf.Subject.CommonName)
	}
	u := &user{
		name:   r.Header.Get("X-Remote-User"),
		groups: r.Header.Values("X-Remote-Group"),
		extra:  map[string][]string{},
	}
	if u.name == "" {
		return nil, errors.New("the front proxy names no user")
	}
	for name, values := range r.Header {
		if key, ok := strings.CutPrefix(name, "X-Remote-Extra-"); ok {
			if key, err = url.PathUnescape(strings.ToLower(key)); err == nil {
				u.extra[key] = values
			}
		}
	}
	return u, nil
}

// may asks the cluster whether a user may do something.
func (c *cluster) may(ctx context.Context, u *user, attributes object) (bool, error) {
	answer, err := c.read(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": object{"user": u.name, "groups": u.groups, "extra": u.extra, "resourceAttributes": attributes},
	})
	if err != nil {
		return false, err
	}
	allowed, _ := answer.at("status")["allowed"].(bool)
	return allowed, nil
}

// events calls opened when a watch begins, and do for each of its events, until that or the watch ends.
func (c *cluster) events(ctx context.Context, path string, opened func(), do func(kind string, of object) error) error {
	response, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	opened()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		event, err := decode(bytes.NewReader(line))
		if err != nil {
			return err
		}
		if err := do(event.text("type"), event.at("object")); err != nil {
			return err
		}
	}
}
