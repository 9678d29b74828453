// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/serve"
)

// nobody authenticates no user: the server's health checks need none.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (serve.User, error) {
	return serve.User{}, apierrors.NewUnauthorized("nobody is believed")
}

func (nobody) Authorize(context.Context, serve.User, serve.Action) error { return nil }

// certificate writes the certificate of net/http's test server into files.
func certificate(t *testing.T) (o options) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o.certFile, o.keyFile = write("tls.crt", "CERTIFICATE", pair.Certificate[0]), write("tls.key", "PRIVATE KEY", key)
	return o
}

// After SIGTERM new connections still come, from clients that still have the Pod among the endpoints.
func TestAServerThatEndsIsUnreadyFirst(t *testing.T) {
	t.Parallel()
	o := certificate(t)
	o.shutdownDelay = 2 * time.Second
	server, err := serve.New(v1alpha.GroupVersion, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Each request has a connection of its own, as from a client that has just been sent here.
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	code := func(path string) int {
		t.Helper()
		answer, err := client.Get("https://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen(ctx, listener, server, o) }()
	if got := code("/readyz"); got != http.StatusOK {
		t.Fatalf("/readyz answers %d", got)
	}
	began := time.Now()
	cancel()
	for code("/readyz") == http.StatusOK {
		if time.Since(began) > o.shutdownDelay {
			t.Fatal("/readyz answers as before")
		}
	}
	if got := code("/livez"); got != http.StatusOK {
		t.Errorf("/livez answers %d", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ends with %v", err)
	}
	if took := time.Since(began); took < o.shutdownDelay {
		t.Errorf("it has ended after %s, and the delay is %s", took, o.shutdownDelay)
	}
}

// With another exit code than 0 the Pod would count as failed because of one slow client.
func TestAClientThatSendsSlowlyDoesNotKeepTheServer(t *testing.T) {
	t.Parallel()
	o := certificate(t)
	o.shutdownDelay = 100 * time.Millisecond
	server, err := serve.New(v1alpha.GroupVersion, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen(ctx, listener, server, o) }()
	client, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "POST /apis HTTP/1.1\r\nHost: llama\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ends with %v", err)
	}
}

// deployment is that of the manifests.
func deployment(t *testing.T) (deployment appsv1.Deployment) {
	t.Helper()
	manifests, err := os.ReadFile("../config/manager/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); deployment.Kind != "Deployment"; {
		deployment = appsv1.Deployment{}
		if err := documents.Decode(&deployment); err != nil {
			t.Fatalf("find the Deployment: %v", err)
		}
	}
	return deployment
}

// A program that does not know how much memory its Pod may have lets garbage be until the kernel ends it.
func TestGoKnowsTheMemoryLimitOfItsPod(t *testing.T) {
	t.Parallel()
	container := deployment(t).Spec.Template.Spec.Containers[0]
	limit := container.Resources.Limits.Memory().Value()
	for _, variable := range container.Env {
		if mebibytes, is := strings.CutSuffix(variable.Value, "MiB"); is && variable.Name == "GOMEMLIMIT" {
			known, err := strconv.ParseInt(mebibytes, 10, 64)
			if known <<= 20; err != nil || known < limit*8/10 || known > limit*95/100 {
				t.Errorf("GOMEMLIMIT is %s, and the limit of the Pod %d bytes (%v)", variable.Value, limit, err)
			}
			return
		}
	}
	t.Error("the Deployment sets no GOMEMLIMIT in MiB")
}

// The kubelet sends SIGTERM, and SIGKILL when the grace period of the Pod is over: all that the server does in between
// must be done by then.
func TestTheServerEndsWithinTheGracePeriodOfItsPod(t *testing.T) {
	t.Parallel()
	pod := deployment(t).Spec.Template.Spec
	var delay time.Duration
	for _, argument := range pod.Containers[0].Args {
		if value, is := strings.CutPrefix(argument, "--shutdown-delay-duration="); is {
			var err error
			if delay, err = time.ParseDuration(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if delay == 0 {
		t.Error("the Deployment sets no delay")
	}
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if delay+shutdownTimeout >= grace {
		t.Errorf("the delay of %s and %s for running requests do not end before the grace period, %s",
			delay, shutdownTimeout, grace)
	}
}

// A server that is asked to end, and ends, has not failed: with another exit code than 0 its Pod would count as failed.
// Here it is asked while it waits to learn how the front proxy is recognized.
func TestTheEndIsNoErrorWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	folder := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["silent"] = &clientcmdapi.Cluster{Server: "http://" + silent.Addr().String()}
	config.Contexts["silent"] = &clientcmdapi.Context{Cluster: "silent"}
	config.CurrentContext = "silent"
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, options{kubeconfigFile: kubeconfig, dataDir: filepath.Join(folder, "data")}) }()
	asked, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it did not end")
	}
}
