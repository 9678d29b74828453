// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The operator's credential gives access to the API server only through the proxy.
func TestCredentialIsValidOnlyAtTheProxy(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	if _, err := b.client(t).CoreV1().ConfigMaps(b.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "through"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	anonymous := rest.AnonymousClientConfig(cluster.Config())
	anonymous.BearerToken = b.operator.BearerToken
	client, err := kubernetes.NewForConfig(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps(b.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "past"}}, metav1.CreateOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("Create() past the proxy: error = %v, want unauthorized", err)
	}
}

// The audit log distinguishes requests through the proxy from all others by a mark that an operator never sees and
// can't choose.
func TestAuditMark(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client, err := rest.HTTPClientFor(b.operator)
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/namespaces/" + b.namespace + "/configmaps/marked"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.operator.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(auditID, "of-my-own")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	for name, values := range answer.Header {
		if strings.Contains(strings.Join(values, " "), b.AuditMark()) {
			t.Errorf("the operator sees the mark in the header %s", name)
		}
	}
	log, err := os.ReadFile(cluster.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, path) {
			found = true
			if !strings.Contains(line, `"auditID":"`+b.AuditMark()+"-") || strings.Contains(line, "of-my-own") {
				t.Errorf("the line is not marked: %s", line)
			}
		}
	}
	if !found {
		t.Error("the audit log does not have the request")
	}
}
