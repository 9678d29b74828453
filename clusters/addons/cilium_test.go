// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/longtest"
)

// Without nodes there is no network to wait for, but the test can see what the chart renders from our values.
func TestCiliumChartUsesOurValues(t *testing.T) {
	s := newScene(t)
	s.target.AirGap = true
	s.target.APIHost, s.target.APIPort = "labs-control-plane", 6443
	addon := Cilium(charts(t))
	for range 2 {
		if err := addon.Install(t.Context(), s.target, s.report); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := s.client.CoreV1().ConfigMaps(ciliumNamespace).Get(t.Context(), "cilium-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"kube-proxy-replacement": "true", "enable-l7-proxy": "false", "ipam": "kubernetes",
		"tunnel-protocol": "vxlan", "routing-mode": "tunnel", "enable-hubble": "true",
	} {
		if got := settings.Data[key]; got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	agents, err := s.client.AppsV1().DaemonSets(ciliumNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(agents.Items) != 1 {
		t.Fatalf("DaemonSets = %v, %v, want only Cilium's, without Envoy", agents, err)
	}
	var host string
	for _, variable := range agents.Items[0].Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "KUBERNETES_SERVICE_HOST" {
			host = variable.Value
		}
	}
	if host != "labs-control-plane" {
		t.Errorf("the agents use the API server %q, want labs-control-plane", host)
	}
	// The images of all these Pods can be built without a registry.
	catalogue, err := images.Load()
	if err != nil {
		t.Fatal(err)
	}
	deployments, err := s.client.AppsV1().Deployments(ciliumNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := []corev1.PodSpec{agents.Items[0].Spec.Template.Spec}
	for _, d := range deployments.Items {
		pods = append(pods, d.Spec.Template.Spec)
	}
	inCatalogue(t, catalogue, pods)
	state, err := addon.State(t.Context(), s.target)
	if err != nil || state.Installed != state.Pinned || state.Usable || state.Detail != "no node has joined the cluster" {
		t.Errorf("State() = %+v, %v", state, err)
	}
	if err := addon.Uninstall(t.Context(), s.target); err != nil {
		t.Fatal(err)
	}
	if state, err := addon.State(t.Context(), s.target); err != nil || state.Installed != "" {
		t.Errorf("State() after the uninstall = %+v, %v", state, err)
	}
}

func inCatalogue(t *testing.T, catalogue *images.Catalogue, pods []corev1.PodSpec) {
	t.Helper()
	for _, pod := range pods {
		for _, container := range append(pod.InitContainers, pod.Containers...) {
			if _, err := catalogue.Image(container.Image); err != nil {
				t.Errorf("container %s: %v", container.Name, err)
			}
		}
	}
}

func TestCertManagerImagesAreInTheCatalogue(t *testing.T) {
	s := newScene(t)
	s.install(t)
	catalogue, err := images.Load()
	if err != nil {
		t.Fatal(err)
	}
	deployments, err := s.client.AppsV1().Deployments(certManagerNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 3 {
		t.Fatalf("got %d Deployments, error %v, want 3", len(deployments.Items), err)
	}
	for _, d := range deployments.Items {
		inCatalogue(t, catalogue, []corev1.PodSpec{d.Spec.Template.Spec})
		for _, argument := range d.Spec.Template.Spec.Containers[0].Args {
			if flag, reference, _ := strings.Cut(argument, "="); flag == "--acme-http01-solver-image" {
				if _, err := catalogue.Image(reference); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestForeignNetworkPluginIsKept(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.target.Shared = true
	addon := &cilium{charts: charts(t).Chart, patience: time.Second}
	err := addon.Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), "no node has joined the cluster") {
		t.Errorf("Install() error = %v", err)
	}
	if !s.reported("the cluster has a network of its own: leaving it as it is") {
		t.Error("no message that the network is not changed")
	}
	sets, err := s.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) > 0 {
		t.Errorf("DaemonSets = %v, %v, want none", sets.Items, err)
	}
}

func TestNodeWithoutNetworkIsNamed(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, test := range []struct {
		name string
		edit func(*corev1.Node)
		want string
	}{
		{name: "ready", edit: func(*corev1.Node) {}},
		{
			name: "tainted by Cilium",
			edit: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: notReadyTaint, Effect: corev1.TaintEffectNoSchedule}}
			},
			want: "node worker still has the taint node.cilium.io/agent-not-ready",
		},
		{
			name: "not ready",
			edit: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse },
			want: "node worker is not ready",
		},
		{
			name: "a control plane's own taint",
			edit: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			edited := node.DeepCopy()
			test.edit(edited)
			if got := nodesObjection([]corev1.Node{*edited}); got != test.want {
				t.Errorf("objection = %q, want %q", got, test.want)
			}
		})
	}
}
