// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager serves farm.example.com/v1alpha to the API server of a cluster, which forwards the requests of users.
// It only wires: internal/serve speaks the API, internal/llama and internal/farm have the kinds, internal/trust
// authenticates and authorizes, and internal/cluster has the clients of the cluster's API server.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/cluster"
	"lva.io/operators/labs/07-llama/internal/farm"
	"lva.io/operators/labs/07-llama/internal/llama"
	"lva.io/operators/labs/07-llama/internal/serve"
	"lva.io/operators/labs/07-llama/internal/store"
	"lva.io/operators/labs/07-llama/internal/trust"
)

// shutdownTimeout is how long running requests may take after SIGTERM.
const shutdownTimeout = 8 * time.Second

type options struct {
	port                    int
	certFile, keyFile       string
	dataDir, kubeconfigFile string
	shutdownDelay           time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.port, "secure-port", 9443, "port on which to serve HTTPS")
	flag.StringVar(&o.certFile, "tls-cert-file", "", "file with the certificate, PEM")
	flag.StringVar(&o.keyFile, "tls-private-key-file", "", "file with the certificate's key, PEM")
	flag.StringVar(&o.dataDir, "data-dir", "/data", "folder of the storage")
	flag.StringVar(&o.kubeconfigFile, "kubeconfig", os.Getenv("KUBECONFIG"),
		"kubeconfig of the cluster; none: the cluster in which this Pod runs")
	flag.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 0,
		"how long to serve after SIGTERM, while /readyz fails and the Service's endpoint is withdrawn")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		slog.Error("The server cannot go on", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfigFile)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	config.QPS = -1 // each request here is one there: the API server says when it is too much
	core, err := cluster.Client(config, corev1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	authorization, err := cluster.Client(config, authorizationv1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	storage, err := store.Open(o.dataDir)
	if err != nil {
		return err
	}
	llamas, err := llama.New(storage, cluster.NewNamespaces(core))
	if err != nil {
		return errors.Join(err, storage.Close())
	}
	rights, err := trust.NewCluster(ctx, core, authorization)
	if ctx.Err() != nil { // SIGTERM came first. A server that is asked to end, and ends, has not failed.
		return storage.Close()
	}
	if err != nil {
		return errors.Join(err, storage.Close())
	}
	server, err := serve.New(v1alpha.GroupVersion, rights, llamas.Resource(), farm.New(core, rights).Resource())
	if err != nil {
		return errors.Join(err, storage.Close())
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", o.port))
	if err != nil {
		return errors.Join(err, storage.Close())
	}
	return errors.Join(listen(ctx, listener, server, o), storage.Close())
}

// listen serves until the context ends. Then /readyz fails, and everything else is served for a delay, until the
// clients have learned that the Pod is not ready. After the delay watches end, running requests are answered, and no
// new ones are accepted.
func listen(ctx context.Context, listener net.Listener, server *serve.Server, o options) error {
	https := &http.Server{
		Handler:           server,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Any certificate may be shown. Whether it is the front proxy's, internal/trust decides: the kubelet has none.
			ClientAuth: tls.RequestClientCert,
			// The files are read for each connection, so a certificate that was renewed is used at once.
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				certificate, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
				return &certificate, err
			},
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- https.ServeTLS(listener, "", "") }()
	slog.Info("Serving", "address", listener.Addr(), "group", v1alpha.GroupVersion)
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTPS: %w", err)
	case <-ctx.Done():
	}
	slog.Info("Shutting down", "delay", o.shutdownDelay)
	server.Drain()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTPS: %w", err)
	case <-time.After(o.shutdownDelay):
	}
	server.Stop()
	timeout, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := https.Shutdown(timeout)
	if errors.Is(err, context.DeadlineExceeded) {
		// A client that sends its request slowly must not keep the server, nor make its end an error.
		slog.Info("Closing the connections of requests that have not ended in time", "after", shutdownTimeout)
		err = https.Close()
	}
	if err != nil {
		return fmt.Errorf("end the running requests: %w", err)
	}
	return nil
}
