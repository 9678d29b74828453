// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/process"
)

// cert-manager's programs as we build them, as local processes against the embedded cluster: what is admitted, injected and
// issued is real, only that no Pod runs them. Building them takes minutes, so the test needs them built already.
func TestCertManagersProgramsIssueACertificate(t *testing.T) {
	program := filepath.Join(checkout(), ".cache", "images", "programs", "certmanager")
	if _, err := os.Stat(program); err != nil {
		t.Skip("it is not built: `cluster images build` does it, or `make cluster`")
	}
	s := newScene(t)
	s.install(t)
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scope.Close() })
	port, health := freePort(t), freePort(t)
	start := func(name string, args ...string) {
		log, err := os.Create(filepath.Join(scope.Dir, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			log.Close()
			if content, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
				t.Logf("%s:\n%s", name, content[max(0, len(content)-3000):])
			}
		})
		if _, err := scope.Start(process.Spec{
			Name: name, Path: program, Args: append([]string{name, "--kubeconfig=" + s.Kubeconfig}, args...), Stdout: log, Stderr: log,
		}); err != nil {
			t.Fatal(err)
		}
	}
	start("controller", "--v=2", "--cluster-resource-namespace=cert-manager", "--leader-election-namespace=kube-system",
		"--metrics-listen-address=127.0.0.1:0", "--internal-healthz-listen-address=127.0.0.1:0", "--max-concurrent-challenges=60")
	start("cainjector", "--v=2", "--leader-election-namespace=kube-system", "--metrics-listen-address=0")
	start("webhook", "--v=2", fmt.Sprintf("--secure-port=%d", port), fmt.Sprintf("--healthz-port=%d", health),
		"--dynamic-serving-ca-secret-namespace=cert-manager", "--dynamic-serving-ca-secret-name=cert-manager-webhook-ca",
		"--dynamic-serving-dns-names=cert-manager-webhook.cert-manager.svc", "--metrics-listen-address=0")

	service, err := s.client.CoreV1().Services(certManagerNamespace).Get(t.Context(), "cert-manager-webhook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := egress.Listen(s.Egress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = router.Close() })
	router.Route(net.JoinHostPort(service.Spec.ClusterIP, "443"), fmt.Sprintf("127.0.0.1:%d", port))

	begun := time.Now()
	if err := until(t.Context(), time.Minute, "the webhook", func(ctx context.Context) (string, error) {
		return webhookObjection(ctx, s.target, certManagerNamespace)
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("the webhook admits after %s", time.Since(begun).Round(time.Millisecond))
	begun = time.Now()
	addon := &certManager{charts: charts(t).Chart, patience: time.Minute}
	if err := addon.prove(t.Context(), s.target, certManagerNamespace, s.say); err != nil {
		t.Fatal(err)
	}
	t.Logf("a certificate is issued after %s", time.Since(begun).Round(time.Millisecond))
	left, err := s.client.CoreV1().Secrets(certManagerNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range left.Items {
		if strings.HasPrefix(secret.Name, proofName) {
			t.Errorf("the proof left the Secret %s behind", secret.Name)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
