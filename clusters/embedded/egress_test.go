// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/longtest"
)

// webhook is a validating webhook that denies every request. It runs in a process outside of any Pod.
type webhook struct {
	authority *certificates.Authority
	address   string
	asked     atomic.Int64
}

// serveWebhook serves a webhook with a certificate for a host.
func serveWebhook(t *testing.T, host string) *webhook {
	t.Helper()
	authority, err := certificates.NewAuthority("of " + host)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := authority.Server(host, []string{host})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	hook := &webhook{authority: authority}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		hook.asked.Add(1)
		review.Response = &admissionv1.AdmissionResponse{
			UID:    review.Request.UID,
			Result: &metav1.Status{Message: fmt.Sprintf("no %s, says %s", review.Request.Name, r.TLS.ServerName)},
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	hook.address = server.Listener.Addr().String()
	return hook
}

// registration is a webhook's Service and the configuration that names it.
type registration struct {
	client    kubernetes.Interface
	namespace string
	service   string // ClusterIP:port
}

// register creates a namespace and a webhook configuration. The webhook behind a Service decides on the ConfigMaps of
// the namespace.
func register(
	t *testing.T, client kubernetes.Interface, caBundle []byte, policy admissionregistrationv1.FailurePolicyType,
) registration {
	t.Helper()
	namespace := newNamespace(t, client)
	service, err := client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "webhook"},
			Ports:    []corev1.ServicePort{{Port: 443}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	none := admissionregistrationv1.SideEffectClassNone
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "configmaps." + namespace + ".io",
			SideEffects:             &none,
			FailurePolicy:           &policy,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: caBundle, Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "webhook"},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   []string{""},
					APIVersions: []string{"v1"},
					Resources:   []string{"configmaps"},
				},
			}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The namespace is deleted with its cluster, but without the Service each create in it would be refused.
	t.Cleanup(func() {
		_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(
			t.Context(), namespace, metav1.DeleteOptions{},
		)
	})
	return registration{client: client, namespace: namespace, service: net.JoinHostPort(service.Spec.ClusterIP, "443")}
}

// create creates a ConfigMap in a dry run.
func (r registration) create(t *testing.T) error {
	t.Helper()
	_, err := r.client.CoreV1().ConfigMaps(r.namespace).Create(
		t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sundae"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
	)
	return err
}

// await waits until the answer to a creation contains want. An empty want means that the creation is allowed. The API
// server sees a configuration a moment after it was created.
func (r registration) await(t *testing.T, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("creating a ConfigMap returns %q", want), func() (bool, error) {
		err := r.create(t)
		if want == "" {
			return err == nil, nil
		}
		return err != nil && strings.Contains(err.Error(), want), nil
	})
}

func TestWebhookIsReachedThroughItsService(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	client := clientOf(t, cluster)
	const refused, ignored = admissionregistrationv1.Fail, admissionregistrationv1.Ignore

	// A certificate is valid for the name of one Service, so the test has two Services, each with a certificate.
	probe := register(t, client, nil, ignored)
	host := func(r registration) string { return "webhook." + r.namespace + ".svc" }
	hook := serveWebhook(t, host(probe))
	fails := register(t, client, hook.authority.PEM, refused)
	fails.await(t, `failed calling webhook "configmaps.`+fails.namespace+`.io": `+
		`failed to call webhook: Post "https://`+host(fails)+`:443/`)
	fails.await(t, "dial unix egress.sock: connect: no such file or directory") // there is no listener
	ignores := register(t, client, hook.authority.PEM, ignored)
	ignores.await(t, "")

	router, err := egress.Listen(cluster.Egress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	fails.await(t, "no local process serves "+fails.service)
	router.Route(fails.service, hook.address)
	fails.await(t, "certificate is valid for "+host(probe)+", not "+host(fails))

	right := serveWebhook(t, host(fails))
	router.Route(fails.service, right.address)
	fails.await(t, "certificate signed by unknown authority")
	if asked := hook.asked.Load() + right.asked.Load(); asked != 0 {
		t.Errorf("webhooks with a wrong certificate were called %d times, want 0", asked)
	}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := configurations.Get(t.Context(), fails.namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configuration.Webhooks[0].ClientConfig.CABundle = right.authority.PEM
	if _, err := configurations.Update(t.Context(), configuration, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	fails.await(t, "denied the request: no sundae, says "+host(fails))
	if right.asked.Load() == 0 {
		t.Error("the webhook was never called")
	}

	// When the listener is gone again, the earlier connections no longer count, as soon as the API server has noticed
	// that.
	if err := router.Close(); err != nil {
		t.Fatal(err)
	}
	fails.await(t, "dial unix egress.sock: connect: no such file or directory")
	if err := ignores.create(t); err != nil {
		t.Errorf("with the failure policy Ignore, create() error = %v, want nil", err)
	}
}

// The path of a playground may be longer than the name of a socket may be. The playground may have been started by an
// older version of this repository, whose API server had no egress.
func TestPlaygroundInDeepFolderReachesWebhooks(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	playground := NewPlayground(root)
	t.Cleanup(func() {
		if _, err := playground.Down(); err != nil {
			t.Error(err)
		}
	})
	up(t, playground)
	if up(t, playground) {
		t.Error("Up restarted a running playground")
	}
	older := stateOf(t, playground)
	older.Flags = "others"
	if err := playground.writeState(older); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(playground.Dir, "egress.yaml")); err != nil {
		t.Fatal(err)
	}
	if !up(t, playground) {
		t.Error("Up did not restart a playground that was started with other flags")
	}
	client := clientAt(t, playground)
	router, err := egress.Listen(playground.Egress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	made := register(t, client, nil, admissionregistrationv1.Fail)
	hook := serveWebhook(t, "webhook."+made.namespace+".svc")
	router.Route(made.service, hook.address)
	made.await(t, "certificate signed by unknown authority")
}
