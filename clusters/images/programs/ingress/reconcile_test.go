// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// patience is how long it may take until a change in the API server is in the table.
const patience = 20 * time.Second

// start starts an API server and the reconciler.
func start(t *testing.T) (*Reconciler, client.Client) {
	t.Helper()
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("%v: `make unit` sets KUBEBUILDER_ASSETS", err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	mgr, err := ctrl.NewManager(config, ctrl.Options{Cache: secretsOfTLS(), Metrics: metrics.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Service: client.ObjectKey{Namespace: "default", Name: "ingress"}}
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r, direct
}

func create(t *testing.T, api client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		object.SetNamespace("default")
		if _, ok := object.(*networkingv1.IngressClass); ok {
			object.SetNamespace("")
		}
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			return holds(), nil
		}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// The test renews a certificate, creates a Service late, and has Ingresses of other classes.
func TestTableFollowsTheCluster(t *testing.T) {
	r, api := start(t)
	class, other := "lab", "nginx"
	page := networkingv1.HTTPIngressPath{
		Path: "/", PathType: new(networkingv1.PathTypePrefix),
		Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"}},
		},
	}
	of := func(name string, class *string, host string) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
			IngressClassName: class, TLS: []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: name}},
			Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{page}},
			}}},
		}}
	}
	annotated := of("annotated", nil, "old.lab.test")
	annotated.Annotations = map[string]string{classAnnotation: class}
	front := service("ingress", "http", 80)
	create(t, api,
		&networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec:       networkingv1.IngressClassSpec{Controller: ControllerName},
		},
		&networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: other},
			Spec:       networkingv1.IngressClassSpec{Controller: "example.com/other"},
		},
		front, of("shop", &class, "shop.lab.test"), of("theirs", &other, "theirs.lab.test"),
		of("nobodys", nil, "nobodys.lab.test"), annotated,
	)

	until(t, "the Ingress without a Service", func() bool {
		found, ok := r.Table().find("shop.lab.test", "/")
		return ok && found.missing == "the Ingress names the Service web, and the namespace default has none of that name"
	})
	if err := r.Ready(nil); err != nil {
		t.Errorf("Ready() with a table: %v", err)
	}
	until(t, "the Ingress with an annotation", func() bool { _, ok := r.Table().find("old.lab.test", "/"); return ok })
	for _, host := range []string{"theirs.lab.test", "nobodys.lab.test"} {
		if _, ok := r.Table().find(host, "/"); ok {
			t.Errorf("%s is served, but is not of our class", host)
		}
	}

	create(t, api, service("web", "http", 8080))
	until(t, "the Service that came later", func() bool {
		found, _ := r.Table().find("shop.lab.test", "/")
		return found.url != nil && found.url.Port() == "8080"
	})

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Type:       corev1.SecretTypeTLS,
		Data:       pair(t, "first"),
	}
	create(t, api, secret)
	p, err := newProxy(r.Table)
	if err != nil {
		t.Fatal(err)
	}
	served := func(host string) string {
		t.Helper()
		certificate, err := p.certificate(&tls.ClientHelloInfo{ServerName: host})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(certificate.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	until(t, "the certificate", func() bool { return served("shop.lab.test") == "first" })
	secret.Data = pair(t, "renewed")
	if err := api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	until(t, "the renewed certificate", func() bool { return served("SHOP.lab.test") == "renewed" })
	if got := served("other.lab.test"); got != "no Ingress has a certificate for this name" {
		t.Errorf("another name is served with the certificate of %q", got)
	}

	until(t, "the status", func() bool {
		var ingress networkingv1.Ingress
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop"}, &ingress); err != nil {
			t.Fatal(err)
		}
		addresses := ingress.Status.LoadBalancer.Ingress
		return len(addresses) == 1 && addresses[0].IP == front.Spec.ClusterIP
	})
}

func service(name, port string, number int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: port, Port: number}},
	}}
}

// pair returns the data of a Secret with a certificate of that name.
func pair(t *testing.T, name string) map[string][]byte {
	t.Helper()
	certificate, err := selfSigned(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(certificate.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}
}
