// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
)

// barn is the manager as an aggregated API server, whose certificate cert-manager would issue.
const barn = `---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: barn, namespace: reach-system}
spec: {secretName: barn-cert, dnsNames: [barn.reach-system.svc], issuerRef: {name: barn}}
---
apiVersion: v1
kind: Service
metadata: {name: barn, namespace: reach-system}
spec: {selector: {app: manager}, ports: [{port: 443, targetPort: 9443}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: v1.barn.example.com
  annotations: {cert-manager.io/inject-ca-from: reach-system/barn}
spec:
  group: barn.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {name: barn, namespace: reach-system}
`

var withCertificate = strings.Replace(manager, "      containers:",
	"      volumes: [{name: tls, secret: {secretName: barn-cert}}]\n      containers:", 1)

// An aggregated API server gets the certificate that it mounts, and its APIService gets the authority of the
// certificate.
func TestAnAggregatedServerIsTrusted(t *testing.T) {
	longtest.Proof(t)
	own := stagetest.Cluster(t)
	admin := kubernetes.NewForConfigOrDie(own.Config())
	registrations := dynamic.NewForConfigOrDie(own.Config()).Resource(submission.APIServices)
	cluster, err := existing.Open(t.Context(), own.Kubeconfig, embedded.Context)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, brings, problem string }{
		{"as it is written", withCertificate + barn, ""},
		{"no APIService", withCertificate, "config/default contains no APIService"},
		{
			"for others", withCertificate + strings.ReplaceAll(barn, "group: barn.example.com", "group: apps"),
			`serves the API group "apps"`,
		},
		{
			"without a Service",
			withCertificate + strings.ReplaceAll(barn, "service: {name: barn, namespace: reach-system}", "caBundle: null"),
			"names no Service",
		},
		{"with an invalid bundle", withCertificate + barn + "  caBundle: '*'\n", "can't be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if _, err := cluster.Clean(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			d, err := newDeployment(stagetest.Objects(t, test.brings), &submission.Manifests{})
			if err != nil {
				t.Fatal(err)
			}
			bring := []string{"get", "list", "watch", "create"}
			account, err := existing.NewAccount(t.Context(), own.Config(), []rbacv1.PolicyRule{
				{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: bring},
				{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: bring},
			})
			if err != nil {
				t.Fatal(err)
			}
			target := install.Target{
				Config:           account.Config,
				Shared:           true,
				NamespaceCreated: account.Own,
				Groups:           []string{"barn.example.com"},
			}
			register, server, err := d.install(t.Context(), target, installOptions{
				reference: "x", gateway: stage.Gateway{Host: "https://127.0.0.1:1"}, aggregated: true,
			})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("want an error that contains %q, got %v", test.problem, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := register(t.Context()); err != nil {
				t.Fatal(err)
			}
			secret, err := admin.CoreV1().Secrets("reach-system").Get(t.Context(), "barn-cert", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			registered, err := registrations.Get(t.Context(), "v1.barn.example.com", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if registered.GetAnnotations()[injection] != "" {
				t.Error("cert-manager would inject another authority")
			}
			wantTrusted(t, registered, secret)
			if s := server.serving; s.Namespace != "reach-system" || s.Service != "barn" || s.Port != 443 ||
				s.Name != "barn.reach-system.svc" || len(s.CA) == 0 {
				t.Errorf("got serving %+v", s)
			}
		})
	}
}

// wantTrusted fails the test unless an APIService trusts a certificate for the name that the API server uses.
func wantTrusted(t *testing.T, registered *unstructured.Unstructured, secret *corev1.Secret) {
	t.Helper()
	bundle, _, _ := unstructured.NestedString(registered.Object, "spec", "caBundle")
	ca, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil || !bytes.Equal(ca, secret.Data[corev1.ServiceAccountRootCAKey]) {
		t.Errorf("got caBundle %q, error = %v", ca, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatal("the Secret has no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "barn.reach-system.svc"}); err != nil {
		t.Error(err)
	}
}
