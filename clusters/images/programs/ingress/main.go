// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command ingress is the Ingress controller of the course: it forwards HTTP and HTTPS requests to the Services that
// Ingresses name. It is small so that it can be read. reconcile.go watches the API server and builds a table from its
// objects, table.go selects the Service of a request, and proxy.go forwards the request there. docs/reference/addons.md
// lists what it does not support.
package main

import (
	"crypto/tls"
	"flag"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	plain := flag.String("http", ":8080", "the address of HTTP")
	secure := flag.String("https", ":8443", "the address of HTTPS")
	health := flag.String("health", ":8081", "the address of /readyz and /healthz")
	service := flag.String("service", "ingress/ingress",
		"namespace/name of the Service before this program: its address becomes the Ingresses' status")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*plain, *secure, *health, *service); err != nil {
		ctrl.Log.Error(err, "the Ingress controller has ended")
		os.Exit(1)
	}
}

func run(plain, secure, health, service string) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache:                  secretsOfTLS(),
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: health,
	})
	if err != nil {
		return err
	}
	reconciler := &Reconciler{Client: mgr.GetClient(), Service: serviceKey(service)}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	proxy, err := newProxy(reconciler.Table)
	if err != nil {
		return err
	}
	for _, server := range []*manager.Server{
		{Name: "http", Server: &http.Server{Addr: plain, Handler: proxy, ReadHeaderTimeout: time.Minute}},
		{Name: "https", Server: &http.Server{
			Addr: secure, Handler: proxy, ReadHeaderTimeout: time.Minute,
			TLSConfig: &tls.Config{GetCertificate: proxy.certificate, MinVersion: tls.VersionTLS12},
		}},
	} {
		if server.Listener, err = listen(server.Server); err != nil {
			return err
		}
		if err := mgr.Add(server); err != nil {
			return err
		}
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	// The program is ready when the first table exists. Until then, it would answer each request with "there is no such
	// page".
	if err := mgr.AddReadyzCheck("table", reconciler.Ready); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// secretsOfTLS limits the cache to Secrets that hold certificates.
func secretsOfTLS() cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))},
	}}
}

func serviceKey(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// listen opens a server's port, with TLS if it has a configuration for that.
func listen(server *http.Server) (net.Listener, error) {
	listener, err := net.Listen("tcp", server.Addr)
	if err == nil && server.TLSConfig != nil {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	return listener, err
}
