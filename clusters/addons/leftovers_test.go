// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/longtest"
)

func TestInstallAdoptsLeftoverCRDs(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	ours := s.define(t, "certificates", "Certificate", "cert-manager.io", "v1")
	kept := s.object(t, ours)
	old := s.define(t, "challenges", "Challenge", "acme.cert-manager.io", "v1alpha2")
	dying := s.define(t, "orders", "Order", "acme.cert-manager.io", "v1")
	s.object(t, dying, "acme.cert-manager.io/finalizer")
	if err := s.dynamic.Resource(definitions).Delete(t.Context(), dying.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.define(t, "certificates", "Certificate", "example.com", "v1") // none of its business

	s.install(t)
	messages := strings.Join(s.messages, "\n")
	for _, words := range []string{
		"orders.acme.cert-manager.io is still being deleted", "removing the finalizer acme.cert-manager.io/finalizer",
		"deleting the old challenges.acme.cert-manager.io", "taking over 2 kinds",
	} {
		if !strings.Contains(messages, words) {
			t.Errorf("%q is not in the messages\n%s", words, messages)
		}
	}
	s.installed(t)
	certificates := s.dynamic.Resource(certificateKind).Namespace(kept.GetNamespace())
	if after, err := certificates.Get(t.Context(), kept.GetName(), metav1.GetOptions{}); err != nil ||
		after.GetUID() != kept.GetUID() {
		t.Errorf("an object of an adopted kind was deleted: %v", err)
	}
	for _, name := range []string{old.GetName(), dying.GetName()} {
		definition, err := s.dynamic.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || definition.GetUID() == old.GetUID() || definition.GetUID() == dying.GetUID() {
			t.Errorf("%s was not created again: %v", name, err)
		}
	}
	foreign, err := s.dynamic.Resource(definitions).Get(t.Context(), "certificates.example.com", metav1.GetOptions{})
	if err != nil || len(foreign.GetAnnotations()) > 0 {
		t.Errorf("a foreign kind was changed: %v, %v", foreign, err)
	}
}

func TestInstallKeepsObjectsOfRemovedVersions(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	old := s.define(t, "issuers", "Issuer", "cert-manager.io", "v1alpha2")
	s.object(t, old)
	err := CertManager(charts(t)).Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), "issuers.cert-manager.io with objects in version v1alpha2") {
		t.Errorf("error: %v", err)
	}
	if _, err := s.dynamic.Resource(resourceOf(old)).Namespace(metav1.NamespaceDefault).Get(t.Context(),
		"old", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestSharedClusterKeepsForeignCRDs(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.target.Shared = true
	before := s.define(t, "certificates", "Certificate", "cert-manager.io", "v1")
	err := CertManager(charts(t)).Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), "did not create (certificates.cert-manager.io)") ||
		!strings.Contains(err.Error(), "kubectl --kubeconfig "+s.Kubeconfig+" delete crd certificates.cert-manager.io") {
		t.Errorf("error: %v", err)
	}
	after, err := s.dynamic.Resource(definitions).Get(t.Context(), before.GetName(), metav1.GetOptions{})
	if err != nil || after.GetGeneration() != before.GetGeneration() || len(after.GetLabels()) > 0 {
		t.Errorf("the kind was changed: %v, %v", after, err)
	}
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), certManagerNamespace,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace was created: %v", err)
	}
}

func TestForeignCertManagerIsKept(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.target.Shared = true
	labels := map[string]string{"app.kubernetes.io/name": "cert-manager", "app.kubernetes.io/component": "controller"}
	if _, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "controller", Image: "registry.example.com:5000/cert-manager:v1.18.0@sha256:" + strings.Repeat("0", 64),
				}},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	addon := &certManager{charts: charts(t).Chart, patience: 1}
	err := addon.Install(t.Context(), s.target, s.report)
	if !s.reported("cert-manager 1.18.0 is in namespace kube-system and not ours") {
		t.Error("no message names the installation that is used")
	}
	// It is not usable, and the reason names it.
	if err == nil || !strings.Contains(err.Error(), "cert-manager: not within") {
		t.Errorf("error: %v", err)
	}
	if err := addon.Uninstall(t.Context(), s.target); err != nil {
		t.Error(err)
	}
	if _, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "theirs",
		metav1.GetOptions{}); err != nil {
		t.Errorf("the existing installation was deleted: %v", err)
	}
	state, err := addon.State(t.Context(), s.target)
	if err != nil || state.Installed != "1.18.0" || state.Usable {
		t.Errorf("State() = %+v, %v", state, err)
	}
}

// `kubectl apply` of cert-manager's own manifests creates all its objects, but no Helm release.
func TestInstallAdoptsKubectlAppliedObjects(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	if err := s.release(t).forget(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cert-manager", "cert-manager-webhook", "cert-manager-cainjector"} {
		d, err := s.client.AppsV1().Deployments(certManagerNamespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.Annotations = nil
		if _, err := s.client.AppsV1().Deployments(certManagerNamespace).Update(t.Context(), d,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.dynamic.Resource(definitions).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range list.Items {
		unstructured.RemoveNestedField(definition.Object, "metadata", "annotations")
		unstructured.RemoveNestedField(definition.Object, "metadata", "labels")
		if _, err := s.dynamic.Resource(definitions).Update(t.Context(), &definition, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.install(t)
	if !s.reported("taking over 6 kinds") {
		t.Error("no message that the objects are adopted")
	}
	s.installed(t)
}
