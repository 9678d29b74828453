// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/longtest"
)

func TestSecondInstallChangesNothing(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	s.installed(t)
	if got := s.revisions(t); got != "1 deployed" {
		t.Fatalf("revisions = %s", got)
	}
	before := versions(t, s.client)
	s.install(t)
	if got := s.revisions(t); got != "1 deployed" {
		t.Errorf("revisions after a second install = %s", got)
	}
	if after := versions(t, s.client); after != before {
		t.Errorf("Deployments before: %s\nafter: %s", before, after)
	}
}

// versions returns the Deployments of cert-manager with their resource versions.
func versions(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	deployments, err := client.AppsV1().Deployments(certManagerNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, d := range deployments.Items {
		words = append(words, d.Name+" "+string(d.UID))
		if d.Generation != 1 {
			words = append(words, "changed")
		}
	}
	return strings.Join(words, ", ")
}

func TestInstallRestoresDeletedObjects(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	if err := s.client.CoreV1().Services(certManagerNamespace).Delete(t.Context(), "cert-manager-webhook",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.install(t)
	if !s.reported("Service cert-manager-webhook is missing") {
		t.Error("no message names the missing object")
	}
	s.installed(t)
}

// A killed install leaves a release record in a pending state, and any part of the objects.
func TestInterruptedOperationIsRecovered(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	steps := []struct {
		name      string
		interrupt func(*testing.T)
		message   string
		want      string
	}{
		{
			name: "first install",
			interrupt: func(t *testing.T) {
				t.Helper()
				s.setStatus(t, release.StatusPendingInstall)
				if err := s.client.AppsV1().Deployments(certManagerNamespace).Delete(t.Context(),
					"cert-manager", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			message: "an earlier install of cert-manager was interrupted", want: "1 deployed",
		},
		{
			name:      "first install that failed",
			interrupt: func(t *testing.T) { t.Helper(); s.setStatus(t, release.StatusFailed) },
			message:   "an earlier attempt at cert-manager failed", want: "1 deployed",
		},
		{
			name: "upgrade that failed",
			interrupt: func(t *testing.T) {
				t.Helper()
				s.upgradeTo(t, release.StatusDeployed, release.StatusFailed)
			},
			message: "an earlier attempt at cert-manager failed", want: "1 superseded, 2 failed, 3 deployed",
		},
		{
			name: "upgrade",
			interrupt: func(t *testing.T) {
				t.Helper()
				s.upgradeTo(t, release.StatusDeployed, release.StatusPendingUpgrade)
			},
			message: "an earlier upgrade of cert-manager was interrupted", want: "3 superseded, 4 failed, 5 deployed",
		},
		{
			name: "upgrade between its two last writes",
			interrupt: func(t *testing.T) {
				t.Helper()
				s.upgradeTo(t, release.StatusSuperseded, release.StatusPendingUpgrade)
			},
			message: "an earlier upgrade of cert-manager was interrupted", want: "5 superseded, 6 failed, 7 deployed",
		},
		{
			name:      "uninstall",
			interrupt: func(t *testing.T) { t.Helper(); s.setStatus(t, release.StatusUninstalling) },
			message:   "an earlier uninstall of cert-manager was interrupted", want: "1 deployed",
		},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.interrupt(t)
			s.install(t)
			if !s.reported(step.message) {
				t.Errorf("no message contains %q", step.message)
			}
			s.installed(t)
			if got := s.revisions(t); got != step.want {
				t.Errorf("revisions = %s, want %s", got, step.want)
			}
		})
	}
}

// upgradeTo adds a revision of another version, with the status after, and gives the one before it the status before.
func (s *scene) upgradeTo(t *testing.T, before, after release.Status) {
	t.Helper()
	h := s.release(t)
	last, err := h.last()
	if err != nil || last == nil {
		t.Fatal(last, err)
	}
	last.SetStatus(before, "by a test")
	if err := h.config.Releases.Update(last); err != nil {
		t.Fatal(err)
	}
	next := *last
	info, metadata, wrapped := *last.Info, *last.Chart.Metadata, *last.Chart
	metadata.Version = "v1.99.0"
	wrapped.Metadata = &metadata
	next.Info, next.Chart, next.Version = &info, &wrapped, last.Version+1
	next.SetStatus(after, "by a test")
	if err := h.config.Releases.Create(&next); err != nil {
		t.Fatal(err)
	}
}

// The test kills the program for real, at moments between the first request and the last.
func TestKilledInstallIsResumed(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	charts(t)
	killed := 0
	for _, after := range []time.Duration{
		600 * time.Millisecond, 1200 * time.Millisecond, 2 * time.Second, 3 * time.Second,
	} {
		installer := exec.Command(os.Args[0])
		installer.Env = append(os.Environ(), kubeconfigVariable+"="+s.Kubeconfig, storeVariable+"="+store.dir)
		if err := installer.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(after, func() { _ = installer.Process.Kill() })
		if installer.Wait() != nil {
			killed++
		}
		timer.Stop()
	}
	t.Logf("%d of 4 installs were killed before they ended", killed)
	s.install(t)
	s.installed(t)
}

func TestInstallWaitsForTerminatingNamespace(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: certManagerNamespace},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held, err := s.client.CoreV1().ConfigMaps(certManagerNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/held"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.CoreV1().Namespaces().Delete(t.Context(), certManagerNamespace,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	release := time.AfterFunc(2*time.Second, func() {
		held.Finalizers, held.ResourceVersion = nil, ""
		_, _ = s.client.CoreV1().ConfigMaps(certManagerNamespace).Update(t.Context(), held, metav1.UpdateOptions{})
	})
	defer release.Stop()
	s.install(t)
	if !s.reported("waiting for the deletion of the old namespace cert-manager") {
		t.Error("no message names what Install waits for")
	}
	s.installed(t)
}

func TestUninstallKeepsCRDsForTheNextInstall(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	addon := CertManager(charts(t))
	for range 2 {
		if err := addon.Uninstall(t.Context(), s.target); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), certManagerNamespace,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace still exists: %v", err)
	}
	if _, err := s.dynamic.Resource(definitions).Get(t.Context(), "certificates.cert-manager.io",
		metav1.GetOptions{}); err != nil {
		t.Errorf("the kinds were deleted with their objects: %v", err)
	}
	if state, err := addon.State(t.Context(), s.target); err != nil || state.Installed != "" || state.Usable {
		t.Errorf("State() = %+v, %v, want none installed", state, err)
	}
	// The objects are ours on another user's cluster, too: our label is on them.
	s.target.Shared = true
	s.install(t)
	s.installed(t)
}

func TestPlaceholderVersionBecomesModuleVersion(t *testing.T) {
	source, err := charts(t).Chart(t.Context(), "cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loadChart(source)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Metadata.Version != source.Version || loaded.Metadata.AppVersion != source.Version ||
		source.Version == "v0.0.0" {
		t.Errorf("chart versions = %s and %s, want the module's, %s",
			loaded.Metadata.Version, loaded.Metadata.AppVersion, source.Version)
	}
}

func TestLaterValuesOverrideEarlierOnes(t *testing.T) {
	merged, err := mergeValues([]byte("a: {b: 1, c: 2}\nd: 3\n"), []byte("a: {c: 4}\n"))
	if err != nil {
		t.Fatal(err)
	}
	deployed := &release.Release{Chart: &chart.Chart{Metadata: &chart.Metadata{}}, Config: map[string]any{
		"a": map[string]any{"b": 1, "c": 4}, "d": 3,
	}}
	if !same(deployed, deployed.Chart, merged) {
		t.Errorf("merged values = %v", merged)
	}
	if _, err := mergeValues([]byte("a: 1\na: 2\n")); err == nil {
		t.Error("no error for a duplicate value")
	}
}
